// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/interpret/print.hpp>
#include <core/text.hpp>
#include <miniapp/predict/cost.hpp>

namespace shardmark {

const std::array<MemoryKind, 4> memory_kinds{
    MemoryKind{"states", [](const CategoryBytes& b) { return state_bytes(b); }},
    MemoryKind{"activations", [](const CategoryBytes& b) { return b[Category::activation]; }},
    MemoryKind{"buffers",
               [](const CategoryBytes& b) {
                 return b[Category::bucket] + b[Category::gathered] + b[Category::staging];
               }},
    MemoryKind{"workspaces", [](const CategoryBytes& b) { return b[Category::workspace]; }}};

namespace {

std::string states_of(const CategoryBytes& bytes) {
  std::string text;
  for (const Category c :
       {Category::param, Category::grad, Category::master, Category::momentum, Category::variance})
    if (bytes[c] > 0) add_item(text, fmt::format("{} {}", to_string(c), human_bytes(bytes[c])));
  return text.empty() ? text : " (" + text + ")";
}

std::string memory_lines(const PredictedPoint& p, Tier tier, const TierFootprint& at) {
  const MemoryFit::Need& need = p.memory.tiers[tier];
  const auto& budget = p.memory.budgets[tier];
  std::string text = fmt::format("  {} memory, rank {}: {} live at the peak", to_string(tier),
                                 p.program.rank, human_bytes(at.peak_bytes));
  text += fmt::format(", {} allocated by the rank that needs most", human_bytes(need.bytes));
  text += budget ? fmt::format(", budget {} ({}): {}\n", human_bytes(*budget),
                               p.memory.budget_source[tier],
                               need.missing > 0 ? human_bytes(need.missing) + " missing" : "fits")
                 : std::string(", budget unknown: not checked\n");
  for (const MemoryKind& kind : memory_kinds)
    if (const std::int64_t bytes = kind.bytes(at.at_peak); bytes > 0)
      text += fmt::format("    {:<11} {:>10}{}\n", kind.name, human_bytes(bytes),
                          kind.name == "states" ? states_of(at.at_peak) : "");
  return text;
}

}  // namespace

std::string cost_text(const PredictedPoint& p) {
  std::string text;
  const Footprint bytes = footprint(p.program);
  for (const Tier t : all_values<Tier>)
    if (bytes[t].peak_bytes > 0) text += memory_lines(p, t, bytes[t]);
  const Volume volume = steady_volume(p.program);
  std::string calls;
  for (const auto& [op, traffic] : volume)
    if (traffic.elems > 0)
      add_item(calls, fmt::format("{} of {} ({})", plural(traffic.calls, "call"), to_string(op),
                                  human_bytes(traffic.bytes)));
  text += fmt::format("  volume per step: {}; {:.3f} elements per parameter{}\n",
                      calls.empty() ? "nothing is sent" : calls,
                      volume_per_parameter(p.program, volume), volume_note(p.program));
  return text;
}

void add_cost(nlohmann::ordered_json& json, const PredictedPoint& p) {
  const Footprint bytes = footprint(p.program);
  nlohmann::ordered_json& peaks = json["memory_at_peak"] = nlohmann::ordered_json::object();
  for (const Tier t : all_values<Tier>)
    if (bytes[t].peak_bytes > 0) peaks[std::string(to_string(t))] = category_json(bytes[t].at_peak);
  const Volume volume = steady_volume(p.program);
  json["volume"] = volume_json(volume);
  json["per_parameter"] = volume_per_parameter(p.program, volume);
}

}  // namespace shardmark
