// SPDX-License-Identifier: Apache-2.0
// Recordings of real DeepSpeed runs (tests/data/) as decks, which are read like a user's deck.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test {

using nlohmann::json;

struct Recording {
  std::string name;
  int world = 1;
  Deck deck;
  Batch batch;
  json raw;
};

/// The list of modules that a recording has, as the section `model`.
inline json listed_model(const json& recorded) {
  json model = {{"family", "list"}, {"modules", json::array()}};
  for (const json& m : recorded.at("modules")) {
    const bool shapes = !m[1].empty() && m[1][0].is_array();
    model["modules"].push_back({{"name", m[0]}, {shapes ? "shapes" : "numels", m[1]}});
    if (m.size() > 2) model["modules"].back()["class"] = m[2];
  }
  for (const auto& [from, to] : {std::pair{"module_visits", "visits"},
                                 std::pair{"gradient_ready_order", "gradient_ready_order"},
                                 std::pair{"param_groups", "param_groups"},
                                 std::pair{"tied", "tied"}, std::pair{"frozen", "frozen"}})
    if (recorded.contains(from)) model[to] = recorded.at(from);
  return model;
}

/// The deck of a recording, whose model is a list, a family's, or a config of transformers, which
/// is written into `folder`.
inline json deck_of(const json& recorded, const ScratchFolder& folder) {
  json model;
  if (recorded.contains("model_config")) {
    folder.write("config.json", recorded.at("model_config").dump());
    model = {{"config", "config.json"}, {"sequence", recorded.at("sequence")}};
    if (recorded.contains("routing")) model["routing"] = recorded.at("routing");
    if (recorded.contains("adapter")) {
      folder.write("adapter.json", recorded.at("adapter").dump());
      model["adapter"] = "adapter.json";
    }
  } else {
    model = recorded.contains("model") ? recorded.at("model") : listed_model(recorded);
  }
  json run = {{"compute", "none"}, {"steps", 3}};
  if (recorded.contains("run")) run.update(recorded.at("run"));
  return {{"name", recorded.at("name")},
          {"model", model},
          {"deepspeed", recorded.at("config")},
          {"run", run}};
}

/// Returns all recordings of a file.
inline std::vector<Recording> recordings(const std::string& file) {
  std::ifstream in(std::string(SHARDMARK_TESTS) + "/data/" + file);
  const json all = json::parse(in);
  const ScratchFolder folder;
  std::vector<Recording> list;
  for (const json& c : all.at("cases")) {
    Recording r;
    r.name = c.at("name");
    r.world = c.at("world_size");
    r.raw = c;
    const std::string path = folder.write("deck.json", deck_of(c, folder).dump());
    r.deck = read_deck(path, {}, DeckUse::plan).deck;
    r.batch = infer_batch(r.deck.zero, r.world, path);
    list.push_back(std::move(r));
  }
  return list;
}

/// Returns the rows of a recording in ShardMark's words: [phase, op, dtype, elements in, elements
/// out, root or reduction or the parts of an all_to_all, and the group unless it is the world].
inline json in_shardmark_words(const json& rows) {
  json list = json::array();
  for (const json& row : rows) {
    std::string op = row[1];
    if (op == "all_gather_into_tensor") op = "all_gather";
    if (op == "reduce_scatter_tensor") op = "reduce_scatter";
    list.push_back({row[0], op, row[2], row[3], row[4], row.size() > 5 ? row[5] : json("")});
    if (row.size() > 6) list.back().push_back(row[6]);
  }
  return list;
}

/// Returns what a recording expects of `first_step` or `steady_step` (which may be "the same"), on
/// `rank` if ranks differ. All steps of these recordings are alike.
inline json expected_rows(const json& raw, const char* key, int rank = 0) {
  if (raw.contains("first_step_by_rank"))
    return in_shardmark_words(raw.at("first_step_by_rank").at(static_cast<std::size_t>(rank)));
  const json& rows = raw.at(key).is_string() ? raw.at("first_step") : raw.at(key);
  return in_shardmark_words(rows);
}

/// Returns rows of `plan --format json` in the same form.
inline json as_recorded(const json& rows) {
  json list = json::array();
  for (const json& row : rows) {
    json extra = "";
    if (row.contains("root"))
      extra = (row.at("op") == "broadcast" ? "src=" : "dst=") +
              std::to_string(row.at("root").get<int>());
    if (row.value("reduce_op", "") == "max") extra = "max";
    if (row.contains("parts")) extra = row.at("parts");
    list.push_back({row.at("phase"), row.at("op"), row.at("dtype"), row.at("elems_in"),
                    row.at("elems_out"), extra});
    if (row.contains("group")) list.back().push_back(row.at("group"));
  }
  return list;
}

/// Recordings tell groups by their ranks. Where two axes make groups of the same ranks, rows have
/// the first name of those, but for all_to_all, which goes to the ranks that divide experts, and of
/// which what this rank sends and receives in all was recorded.
inline json by_first_name(json rows, const json& raw) {
  if (!raw.contains("groups") || !raw.at("groups").contains("tensor") ||
      !raw.at("groups").contains("expert"))
    return rows;
  const json& groups = raw.at("groups");
  for (json& row : rows) {
    if (row[1] == "all_to_all") row[5] = "";
    if (row.size() < 7 || row[1] == "all_to_all") continue;
    for (const char* name : {"data", "tensor", "expert", "expert_data"})
      if (groups.at(name) == groups.at(row[6].get<std::string>())) {
        row[6] = name;
        break;
      }
  }
  return rows;
}

/// Returns whether every step of the recording overflowed.
inline bool overflows(const Recording& r) {
  return r.name.find("overflow") != std::string::npos;
}

/// Returns the first row that differs, for messages.
inline std::string first_difference(const json& have, const json& want) {
  for (std::size_t i = 0; i < std::max(have.size(), want.size()); ++i) {
    const json a = i < have.size() ? have[i] : json(), b = i < want.size() ? want[i] : json();
    if (a != b) return "row " + std::to_string(i) + ": have " + a.dump() + ", recorded " + b.dump();
  }
  return "";
}

}  // namespace shardmark::test
