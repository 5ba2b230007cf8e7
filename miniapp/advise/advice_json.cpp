// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <miniapp/advise/print.hpp>

namespace shardmark {
namespace {

using AdviceJson = nlohmann::ordered_json;

// Values as JSON where they are JSON, as `--set` reads them.
AdviceJson changes_json(const DeckChanges& changes) {
  AdviceJson o = AdviceJson::object();
  for (const auto& [key, value] : changes) {
    AdviceJson parsed = AdviceJson::parse(value, nullptr, false);
    o[key] = parsed.is_discarded() ? AdviceJson(value) : std::move(parsed);
  }
  return o;
}

AdviceJson candidate_json(const Candidate& c) {
  return {{"deck_changes", changes_json(c.changes)},
          {"stage", c.stage},
          {"schedule", to_string(c.schedule)},
          {"fits", c.fits},
          {"step_s", c.step_s},
          {"tokens_per_s", c.tokens_per_s},
          {"device_bytes", c.bytes[Tier::device]},
          {"host_bytes", c.bytes[Tier::host]},
          {"nvme_bytes", c.bytes[Tier::nvme]},
          {"limited_by", c.limited_by},
          {"exact", c.exact}};
}

}  // namespace

AdviceJson advice_json(const Advice& a, std::size_t top) {
  AdviceJson file{{"machine", a.question.machine->name},
                  {"deck", a.question.deck},
                  {"ranks", a.question.ranks},
                  {"global_batch", a.global_batch},
                  {"considered", a.considered}};
  file["best"] = candidate_json(a.candidates.front());
  file["best"]["prediction"] = point_json(a.best);
  file["candidates"] = AdviceJson::array();
  for (std::size_t i = 0; i < a.candidates.size() && (top == 0 || i < top); ++i)
    file["candidates"].push_back(candidate_json(a.candidates[i]));
  file["refused"] = AdviceJson::array();
  for (const Candidate& c : a.refused) {
    AdviceJson row{{"deck_changes", changes_json(c.changes)},
                   {"fits", false},
                   {"why", c.refusal},
                   {"missing_bytes", c.missing_bytes}};
    if (c.missing_bytes > 0) row["device_bytes"] = c.bytes[Tier::device];
    file["refused"].push_back(std::move(row));
  }
  file["crossings"] = AdviceJson::array();
  for (const Crossing& c : a.crossings)
    file["crossings"].push_back(
        {{"node_bytes_per_s", c.node_bytes_per_s},
         {"side", c.below ? "below" : "above"},
         {"stage", a.candidates[c.candidate].stage},
         {"deck_changes", changes_json(a.candidates[c.candidate].changes)}});
  file["verdict"] = verdict(a);
  return file;
}

AdviceJson networks_json(const std::vector<NetworkRow>& rows) {
  AdviceJson list = AdviceJson::array();
  for (const NetworkRow& r : rows) {
    AdviceJson rates = AdviceJson::array(), fits = AdviceJson::array();
    for (int stage = 0; stage < stage_count; ++stage) {
      rates.push_back(r.tokens_per_s[stage] ? AdviceJson(*r.tokens_per_s[stage])
                                            : AdviceJson(nullptr));
      fits.push_back(r.fits[stage]);
    }
    list.push_back(
        {{"network", r.network}, {"tokens_per_s_by_stage", rates}, {"fits_by_stage", fits}});
  }
  return list;
}

AdviceJson max_model_json(const std::vector<MaxModel>& models) {
  AdviceJson list = AdviceJson::array();
  for (const MaxModel& m : models)
    list.push_back({{"stage", m.stage},
                    {"parameters_by_states", m.by_states},
                    {"layers", m.layers},
                    {"parameters", m.parameters},
                    {"device_bytes", m.bytes}});
  return list;
}

}  // namespace shardmark
