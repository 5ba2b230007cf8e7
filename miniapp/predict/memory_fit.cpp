// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/text.hpp>
#include <miniapp/predict/memory_fit.hpp>

namespace shardmark {
namespace {

std::string_view memory_of(Tier tier) {
  static constexpr auto names = enum_names<Tier>("device memory", "host memory", "disk");
  return names[tier];
}

// What lies beyond the budget of a tier, and where it is first exceeded.
MemoryFit::Need need_of(const Program& program, Tier tier, const Budgets& budgets) {
  MemoryFit::Need need;
  need.bytes = allocated_bytes(program)[tier];
  if (!budgets[tier] || need.bytes <= *budgets[tier]) return need;
  Budgets alone;
  alone[tier] = budgets[tier];
  if (const auto over = first_over(program, alone)) {
    need.missing = footprint(program)[tier].peak_bytes - *budgets[tier];
    need.at = describe_event(program, over->segment, over->event);
  } else {
    need.missing = need.bytes - *budgets[tier];
    need.at = "the start, in the gaps of the arena";
  }
  return need;
}

// Includes one more rank. The refusal is that of the rank whose figures are shown.
void include(MemoryFit& fit, const Program& program, int ranks_per_node,
             std::optional<std::int64_t> shared) {
  bool needs_more = fit.refusal.empty();
  for (const Tier t : all_values<Tier>)
    if (MemoryFit::Need need = need_of(program, t, fit.budgets); need.bytes > fit.tiers[t].bytes) {
      needs_more = needs_more || need.missing > 0;
      fit.tiers[t] = std::move(need);
    }
  if (!needs_more) return;
  std::optional<std::string> why = over_budget(program, fit.budgets, ranks_per_node);
  if (!why && shared) why = over_shared_budget(program, *shared, ranks_per_node);
  if (why) fit.refusal = *why;
}

}  // namespace

Budgets budgets_of(const Deck& deck, const Machine& machine, int ranks_per_node) {
  const int ranks = std::max(1, ranks_per_node);
  Budgets budgets;
  const EnumArray<Tier, double> found{machine.device.memory_bytes * usable_device_part,
                                      machine.node.host_memory_bytes / ranks,
                                      machine.node.disk_bytes / ranks};
  for (const Tier t : all_values<Tier>) {
    if (deck.memory.budget_gib[t])
      budgets[t] =
          std::llround(*deck.memory.budget_gib[t] * gib_bytes / (t == Tier::device ? 1 : ranks));
    else if (found[t] > 0)
      budgets[t] = std::llround(found[t]);
  }
  return budgets;
}

std::string MemoryFit::unknown() const {
  std::vector<std::string> names;
  for (const Tier t : all_values<Tier>)
    if (tiers[t].bytes > 0 && !budgets[t]) names.emplace_back(memory_of(t));
  return join(names, ", ");
}

std::string MemoryFit::shortfall() const {
  std::string text;
  for (const Tier t : all_values<Tier>)
    if (tiers[t].missing > 0)
      text += fmt::format("{}{} of {} missing at {}", text.empty() ? "" : "; ",
                          human_bytes(tiers[t].missing), memory_of(t), tiers[t].at);
  return text.empty() ? refusal : text;
}

MemoryFit memory_fit(const Deck& deck, const Program& own, const Machine& machine,
                     int ranks_per_node) {
  MemoryFit fit;
  fit.budgets = budgets_of(deck, machine, ranks_per_node);
  std::optional<std::int64_t> shared;
  if (machine.device.is_host && !deck.memory.budget_gib[Tier::device] &&
      !deck.memory.budget_gib[Tier::host])
    shared = fit.budgets[Tier::device] ? fit.budgets[Tier::device] : fit.budgets[Tier::host];
  include(fit, own, ranks_per_node, shared);
  Profile profile;
  profile.ranks_per_node = ranks_per_node;
  for (const int rank : heaviest_ranks(deck, own.world))
    if (rank != own.rank)
      include(fit, build_program(deck, own.batch, own.world, rank, profile), ranks_per_node,
              shared);
  return fit;
}

nlohmann::ordered_json memory_json(const MemoryFit& fit) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Tier t : all_values<Tier>) {
    const MemoryFit::Need& need = fit.tiers[t];
    if (need.bytes == 0) continue;
    nlohmann::ordered_json& tier = json[std::string(to_string(t))];
    tier["bytes"] = need.bytes;
    tier["budget"] =
        fit.budgets[t] ? nlohmann::ordered_json(*fit.budgets[t]) : nlohmann::ordered_json(nullptr);
    tier["missing"] = need.missing;
    if (!need.at.empty()) tier["at"] = need.at;
  }
  return json;
}

}  // namespace shardmark
