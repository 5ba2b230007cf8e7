// SPDX-License-Identifier: Apache-2.0
// Recordings of PyTorch's fully_shard and DistributedDataParallel (tests/data/torch_*.json) as
// decks, which are read like a user's deck.
#pragma once

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test {

using nlohmann::json;

struct TorchRecording {
  std::string name;
  int world = 1;
  Deck deck;
  Batch batch;
  json raw;
};

/// Returns whether `name` is `module` or lies in it.
inline bool in_module(const std::string& name, const std::string& module) {
  return module.empty() || name == module || name.rfind(module + ".", 0) == 0;
}

/// Returns the modules that ran: those whose group has events, if the recording has any.
inline std::set<std::string> groups_that_ran(const json& recorded) {
  std::set<std::string> ran;
  for (const json& event : recorded.value("events_step0", json::array()))
    if (event[1] == "pre_forward") ran.insert(event[2]);
  return ran;
}

/// Returns the visits of a recorded module tree. Embeddings are fed with integers, and the first
/// layer of a perceptron with data, so nothing leaves backward through their inputs.
inline json visits_of(const json& recorded, const json& modules) {
  const std::string kind = recorded.value("kind", "");
  const std::set<std::string> ran = groups_that_ran(recorded);
  std::set<std::string> skipped;
  for (const json& m : modules) {
    const std::string name = m[0];
    if (recorded.value("api", "") == "fully_shard" && recorded.contains("wrap") && !name.empty() &&
        !ran.contains(name))
      for (const json& wrapped : recorded.at("wrap"))
        if (wrapped == name) skipped.insert(name);
  }
  const auto runs = [&](const std::string& name) { return !skipped.contains(name); };
  json visits = json::array();
  std::vector<std::string> names;
  for (const json& m : modules) names.push_back(m[0]);
  const auto parent = [&](const std::string& name) {
    for (auto dot = name.rfind('.'); dot != std::string::npos;
         dot = dot ? name.rfind('.', dot - 1) : dot)
      if (std::find(names.begin(), names.end(), name.substr(0, dot)) != names.end())
        return name.substr(0, dot);
    return std::string();
  };
  std::string first;  // the first module that computes
  for (const json& m : modules)
    if (first.empty() && !m[1].empty()) first = m[0];
  const auto has_inputs = [&](const std::string& name) {
    if (name.empty()) return false;
    if (kind == "gpt") return name != "wte" && name != "wpe";
    return !in_module(first, name);
  };
  const std::function<void(const std::string&)> forward = [&](const std::string& name) {
    visits.push_back("f+" + name);
    for (const std::string& child : names)
      if (!child.empty() && parent(child) == name && runs(child)) forward(child);
    visits.push_back("f-" + name);
  };
  const std::function<void(const std::string&)> backward = [&](const std::string& name) {
    visits.push_back("b+" + name);
    for (auto child = names.rbegin(); child != names.rend(); ++child)
      if (!child->empty() && parent(*child) == name && runs(*child)) backward(*child);
    if (has_inputs(name)) visits.push_back("b-" + name);
  };
  forward("");
  backward("");
  return visits;
}

/// The section `torch` of a recording.
inline json torch_section(const json& r, const json& frozen) {
  json torch = json::object();
  const auto take = [&](const char* from, const char* to) {
    if (r.contains(from) && !r.at(from).is_null()) torch[to] = r.at(from);
  };
  take("wrap", "fully_shard");
  take("reshard_after_forward", "reshard_after_forward");
  take("mesh", "mesh");
  take("fprefetch", "set_modules_to_forward_prefetch");
  take("bprefetch", "set_modules_to_backward_prefetch");
  take("divide_factor", "set_gradient_divide_factor");
  if (r.contains("mp") && !r.at("mp").is_null()) torch["mp_policy"] = r.at("mp");
  if (r.value("offload", false)) torch["offload_policy"] = json::object();
  if (r.value("shard_dim1", false)) torch["shard_placement_fn"] = 1;
  const std::string nosync = r.contains("nosync") ? r.at("nosync").get<std::string>() : "";
  if (nosync == "reduce") torch["set_requires_gradient_sync"] = false;
  if (nosync == "allreduce") torch["set_requires_all_reduce"] = false;
  if (r.value("keep_after_backward", false)) torch["set_reshard_after_backward"] = false;
  if (r.value("last_flag", false)) torch["set_is_last_backward"] = false;
  const json ddp = r.value("ddp", json::object());
  for (const auto& [key, value] : ddp.items()) torch[key] = value;
  if (!frozen.empty()) torch["frozen"] = frozen;
  return torch;
}

/// Lists modules with the shapes of their parameters, which the recording lists in the same order.
/// An alias repeats the shapes of its owner.
inline json modules_of(const json& r, json& frozen) {
  std::map<std::string, std::string> owner;
  for (const json& pair : r.value("tied", json::array())) owner[pair[0]] = pair[1];
  json list = json::array();
  std::map<std::string, json> shapes_of;
  std::size_t at = 0;
  for (const json& m : r.at("modules")) {
    const std::string name = m[0];
    json shapes = json::array();
    if (owner.contains(name)) {
      shapes = shapes_of.at(owner.at(name));
    } else {
      for (std::size_t i = 0; i < m[1].size(); ++i, ++at) {
        const json& parameter = r.at("parameters").at(at);
        shapes.push_back(parameter[1]);
        if (!parameter[2].get<bool>())
          frozen.push_back((name.empty() ? "root" : name) + "." + std::to_string(i));
      }
    }
    shapes_of[name] = shapes;
    list.push_back({{"name", name}, {"shapes", shapes}});
  }
  return list;
}

inline json torch_deck(const json& r, int stage) {
  json frozen = json::array();
  json modules = modules_of(r, frozen);
  json model = {
      {"family", "list"}, {"modules", modules}, {"visits", visits_of(r, r.at("modules"))}};
  if (r.contains("tied")) model["tied"] = r.at("tied");
  json deepspeed = {{"train_micro_batch_size_per_gpu", 1},
                    {"gradient_accumulation_steps", r.at("gradient_accumulation_steps")},
                    {"gradient_clipping", r.value("clip", false) ? 1.0 : 0.0},
                    {"zero_optimization", {{"stage", stage}}}};
  return {{"name", r.at("name")},
          {"model", model},
          {"deepspeed", deepspeed},
          {"torch", torch_section(r, frozen)},
          {"run", {{"schedule", "torch"}, {"compute", "none"}, {"steps", 3}}}};
}

/// Returns all recordings of a file.
inline std::vector<TorchRecording> torch_recordings(const std::string& file) {
  std::ifstream in(std::string(SHARDMARK_TESTS) + "/data/" + file);
  const json all = json::parse(in);
  const ScratchFolder folder;
  std::vector<TorchRecording> list;
  for (const json& c : all.at("cases")) {
    TorchRecording r;
    r.name = c.at("name");
    r.world = c.at("world_size");
    r.raw = c;
    const std::string api = c.at("api");
    const int stage = api == "fully_shard" ? 3 : api == "zero1" ? 1 : 0;
    const std::string path = folder.write("deck.json", torch_deck(c, stage).dump());
    r.deck = read_deck(path, {}, DeckUse::plan).deck;
    r.batch = infer_batch(r.deck.zero, r.world, path);
    list.push_back(std::move(r));
  }
  return list;
}

/// Returns the rows of a step of a recording: [phase, op, dtype, elements in and out, reduction].
inline json torch_rows(const json& raw, const std::string& step) {
  json rows = raw.at(step);
  if (rows.is_string()) rows = raw.at("step0");
  json list = json::array();
  for (const json& row : rows) {
    std::string op = row[1];
    if (op == "all_gather_list") op = "all_gather";
    list.push_back({row[0], op, row[2], row[3], row[4], row.size() > 7 ? row[7] : json("")});
  }
  return list;
}

}  // namespace shardmark::test
