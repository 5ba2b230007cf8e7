// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/text.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>

namespace shardmark {

namespace {

std::string stage_line(const MaxModel& s) {
  if (!s.refusal.empty()) return fmt::format("{:>5} is refused: {}\n", s.stage, s.refusal);
  const std::string start =
      fmt::format("{:>5} {:>24} {:>8}", s.stage,
                  s.by_states ? fmt::format("{:.4g} B", *s.by_states * 1e-9) : "-",
                  s.layers > 0 ? std::to_string(s.layers) : "none");
  if (s.layers == 0)
    return fmt::format("{}  not even one layer of this width fits: it needs {}\n", start,
                       human_bytes(s.bytes));
  return fmt::format("{} {:>20.4g} B {:>12}\n", start, static_cast<double>(s.parameters) * 1e-9,
                     human_bytes(s.bytes));
}

}  // namespace

std::string max_model_text(const AdviseCase& q, const MaxModels& found) {
  const ModelSpec& m = found.deck.model;
  std::string text = fmt::format(
      "the largest models of the kind of {} on {} of {}, with {} of device memory per rank\n"
      "{} of width {}, sequence {}, {}; {}\n{:>5} {:>24} {:>8} {:>22} {:>12}\n",
      found.deck.name, plural(q.ranks, "rank"), q.machine->name, human_bytes(found.budget),
      to_string(m.family), m.hidden, m.sequence, to_string(found.deck.zero.precision.computes_in()),
      settings_line(found.deck, found.batch), "stage", "by model states alone", "layers",
      "by the whole plan", "device");
  for (const MaxModel& s : found.stages) text += stage_line(s);
  text +=
      "B: billions of parameters. \"By model states alone\" is the ZeRO paper's table 2: any "
      "model in mixed\nprecision with Adam, 16 bytes per parameter. \"By the whole plan\" adds "
      "layers of the deck's width until\ngradients, activations and buffers fill the device "
      "too.\n";
  if (std::ranges::any_of(found.stages,
                          [](const MaxModel& s) { return s.layers == most_layers_to_fit; }))
    text += fmt::format(
        "More than {} layers are not tried, so the device is not full: give a wider model.\n",
        most_layers_to_fit);
  return text;
}

nlohmann::ordered_json max_model_json(const AdviseCase& q, const MaxModels& found) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MaxModel& m : found.stages) {
    list.push_back(
        {{"stage", m.stage},
         {"parameters_by_states", m.by_states ? nlohmann::ordered_json(*m.by_states) : nullptr},
         {"layers", m.layers},
         {"parameters", m.parameters},
         {"device_bytes", m.bytes}});
    if (!m.refusal.empty()) list.back()["refused"] = m.refusal;
  }
  nlohmann::ordered_json model = model_object(found.deck, 0);
  model.erase("parameters");  // and layers: these are the answer
  model.erase("layers");
  return {{"machine", q.machine->name},
          {"ranks", q.ranks},
          {"for", traits(q.framework).name},
          {"model", model},
          {"settings", settings_object(found.deck, found.batch)},
          {"device_budget_bytes", found.budget},
          {"max_models", list}};
}

}  // namespace shardmark
