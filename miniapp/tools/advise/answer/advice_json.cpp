// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/knobs.hpp>
#include <miniapp/tools/advise/search.hpp>

namespace shardmark {
namespace {

using AdviceJson = nlohmann::ordered_json;

AdviceJson idle_json(const std::vector<IdleKey>& keys) {
  AdviceJson o = AdviceJson::object();
  for (const IdleKey& k : keys) {
    o[k.key] = AdviceJson::array();
    for (const std::string& value : k.values) o[k.key].push_back(value_json(value));
  }
  return o;
}

// What differs from the deck: {"key", "name", "from", "to"}.
AdviceJson differences_json(const Advice& a, const Candidate& c) {
  AdviceJson list = AdviceJson::array();
  for (const KnobChange& change : knob_changes(c.changes, a.given_beside(c), c.values))
    list.push_back({{"key", change.key},
                    {"name", change.name},
                    {"from", value_json(change.from)},
                    {"to", value_json(change.to)}});
  return list;
}

AdviceJson candidate_json(const Advice& a, const Candidate& c) {
  return {{"deck_changes", changes_json(c.changes)},
          {"changes", differences_json(a, c)},
          {"stage", c.stage},
          {"schedule", to_string(c.schedule)},
          {"recomputation", c.recomputes},
          {"fits", c.fits},
          {"tight", c.tight},
          {"step_s", c.step_s},
          {"tokens_per_s", c.tokens_per_s},
          {"device_bytes", c.bytes[Tier::device]},
          {"host_bytes", c.bytes[Tier::host]},
          {"nvme_bytes", c.bytes[Tier::nvme]},
          {"limited_by", c.limited_by},
          {"without_effect", idle_json(c.without_effect)},
          {"exact", c.exact}};
}

AdviceJson refusal_json(const Candidate& c) {
  AdviceJson row{{"deck_changes", changes_json(c.changes)},
                 {"fits", false},
                 {"why", c.refusal},
                 {"missing_bytes", c.missing_bytes}};
  if (c.missing_bytes > 0) row["device_bytes"] = c.bytes[Tier::device];
  return row;
}

AdviceJson crossing_json(const Advice& a, const Crossing& c) {
  const Candidate& other = a.best_of_stage[c.candidate];
  return {{"node_bytes_per_s", c.node_bytes_per_s},
          {"until_bytes_per_s", c.until_bytes_per_s},
          {"side", c.below ? "below" : "above"},
          {"stage", other.stage},
          {"gain", c.gain},
          {"deck_changes", changes_json(other.changes)}};
}

AdviceJson as_given_json(const Advice& a) {
  const Candidate& c = a.as_given;
  return c.fits ? candidate_json(a, c) : refusal_json(c);
}

}  // namespace

AdviceJson advice_json(const Advice& a, std::size_t top) {
  AdviceJson file{{"machine", a.question.machine->name},
                  {"deck", a.question.deck},
                  {"for", traits(a.question.framework).name},
                  {"model", model_object(a.deck, a.best.program.model.parameters)},
                  {"ranks", a.question.ranks},
                  {"global_batch", a.global_batch},
                  {"considered", a.considered}};
  const Candidate& best = a.candidates.front();
  file["best"] = candidate_json(a, best);
  file["best"]["prediction"] = point_json(a.best);
  file["changes"] = differences_json(a, best);
  file["with_room"] = a.with_room ? candidate_json(a, *a.with_room) : AdviceJson(nullptr);
  file["as_given"] = as_given_json(a);
  file["candidates"] = AdviceJson::array();
  std::vector<IdleKey> idle;
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    if (top == 0 || i < top) file["candidates"].push_back(candidate_json(a, a.candidates[i]));
    for (const IdleKey& k : a.candidates[i].without_effect) merge_idle(idle, k);
  }
  file["without_effect"] = idle_json(idle);
  file["refused"] = AdviceJson::array();
  for (const Candidate& c : a.refused) file["refused"].push_back(refusal_json(c));
  file["crossings"] = AdviceJson::array();
  for (const Crossing& c : a.crossings) file["crossings"].push_back(crossing_json(a, c));
  file["verdict"] = verdict(a);
  return file;
}

AdviceJson networks_json(const NetworkTable& table) {
  AdviceJson list = AdviceJson::array(), fits = AdviceJson::array(), bytes = AdviceJson::array();
  for (const Candidate& c : table.stages) {
    fits.push_back(c.fits);
    bytes.push_back(c.bytes[Tier::device]);
  }
  for (const NetworkRow& r : table.rows) {
    AdviceJson rates = AdviceJson::array();
    for (const auto& rate : r.tokens_per_s)
      rates.push_back(rate ? AdviceJson(*rate) : AdviceJson(nullptr));
    list.push_back({{"network", r.network},
                    {"tokens_per_s_by_stage", rates},
                    {"fits_by_stage", fits},
                    {"device_bytes_by_stage", bytes}});
  }
  return list;
}

}  // namespace shardmark
