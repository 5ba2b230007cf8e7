// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

std::string host_figures(const TierFootprint& tier, int ranks_per_node) {
  const auto ranks = static_cast<std::int64_t>(std::max(1, ranks_per_node));
  return fmt::format(" On each node {} need {} of it together, {} of that pinned.",
                     plural(ranks, "rank"), human_bytes(tier.peak_bytes * ranks),
                     human_bytes(tier.pinned_peak_bytes * ranks));
}

std::string_view place(Tier tier) {
  static constexpr auto places =
      enum_names<Tier>("in device memory", "in host memory", "on the disk of nvme_path");
  return places[tier];
}

// What was planned and fits comes first; the rest needs another launch or another model.
std::string advice(const Program& p, Tier tier, const FittingChanges& planned) {
  std::vector<std::string> fitting = planned.value_or(std::vector<std::string>{});
  if (tier == Tier::host) fitting.emplace_back("fewer ranks on a node");
  if (tier == Tier::nvme) fitting.emplace_back("a disk with more room");
  if (tier == Tier::device && p.stage > 0 && p.shard_ranks == p.world)
    fitting.emplace_back("more ranks");  // in groups, they would only hold more copies
  if (tier != Tier::device) fitting.emplace_back("more nodes");
  if (!planned)
    fitting.emplace_back(
        "a change of the deck (`shardmark predict` and `shardmark advise` find it)");
  fitting.emplace_back("a smaller model");
  return join(fitting, ", ");
}

// "micro_only, event 57: acquire saved.block3 (b0) (category activation)"
std::string place_of_death(const Program& p, const BudgetOverrun& over) {
  const Event* event = over.event >= 0 ? &p.segments[over.segment].events[over.event] : nullptr;
  return fmt::format("{} (category {})", describe_event(p, over.segment, over.event),
                     event ? to_string(event->category) : "model states");
}

}  // namespace

std::optional<std::string> over_shared_budget(const Program& program, std::int64_t bytes,
                                              int ranks_per_node, const FittingChanges& fitting) {
  const auto needed = allocated_bytes(program);
  const std::int64_t both = needed[Tier::device] + needed[Tier::host];
  if (needed[Tier::host] == 0 || both <= bytes) return {};
  const TierFootprint on_host = footprint(program)[Tier::host];
  return fmt::format(
      "it does not fit in memory: rank {} needs {} as device memory and {} as host memory, which "
      "are the same here: the budget is {}, {} missing.{} What would help: {}",
      program.rank, human_bytes(needed[Tier::device]), human_bytes(needed[Tier::host]),
      human_bytes(bytes), human_bytes(both - bytes), host_figures(on_host, ranks_per_node),
      advice(program, Tier::host, fitting));
}

std::optional<std::string> over_budget(const Program& program, const Budgets& budgets,
                                       int ranks_per_node, const FittingChanges& fitting) {
  const Footprint f = footprint(program);
  if (const auto over = first_over(program, budgets)) {
    const TierFootprint& tier = f[over->tier];
    const std::int64_t budget = *budgets[over->tier];
    const bool states_fit = state_bytes(tier.at_peak) <= budget;
    return fmt::format(
        "it does not fit {}: rank {} needs {} ({} bytes) at its peak, the "
        "budget is {}: {} missing.{} It would die at {}. {} What would help: {}",
        place(over->tier), program.rank, human_bytes(tier.peak_bytes), tier.peak_bytes,
        human_bytes(budget), human_bytes(tier.peak_bytes - budget),
        over->tier == Tier::host ? host_figures(tier, ranks_per_node) : "",
        place_of_death(program, *over),
        states_fit ? "The model states alone would fit; gathered units, buckets and activations "
                     "on top of them do not."
                   : "The model states alone do not fit.",
        advice(program, over->tier, fitting));
  }
  const auto allocated = allocated_bytes(program);
  for (const Tier t : all_values<Tier>)
    if (budgets[t] && allocated[t] > *budgets[t])
      return fmt::format(
          "it does not fit {}: rank {} needs an arena of {} ({} bytes; {} of them at its "
          "peak, the rest lies in gaps), the budget is {}: {} missing.{} What would help: {}",
          place(t), program.rank, human_bytes(allocated[t]), allocated[t], f.tiers[t].peak_bytes,
          human_bytes(*budgets[t]), human_bytes(allocated[t] - *budgets[t]),
          t == Tier::host ? host_figures(f.tiers[t], ranks_per_node) : "",
          advice(program, t, fitting));
  return {};
}

std::optional<std::string> states_over_budget(const Program& start_up, const Budgets& budgets,
                                              std::optional<std::int64_t> shared,
                                              int ranks_per_node, const FittingChanges& fitting) {
  Footprint f = footprint(start_up);
  const auto live = live_at(start_up, start_up.segments[0].exit);
  EnumArray<Tier, std::int64_t> states{};
  for (const Tier t : all_values<Tier>) {
    states[t] = state_bytes(live[t]);
    f.tiers[t].at_peak = live[t];
    f.tiers[t].peak_bytes = states[t];
  }
  for (const Tier tier : all_values<Tier>) {
    if (!budgets[tier] || states[tier] <= *budgets[tier]) continue;
    Budgets one;  // of this tier alone
    one[tier] = budgets[tier];
    return fmt::format(
        "it does not fit {}: rank {} needs at least {} ({} bytes) for its model states alone, the "
        "budget is {}: {} missing.{} It would die at {}. The model states alone do not fit. What "
        "would help: {}",
        place(tier), start_up.rank, human_bytes(states[tier]), states[tier],
        human_bytes(*budgets[tier]), human_bytes(states[tier] - *budgets[tier]),
        tier == Tier::host ? host_figures(f[tier], ranks_per_node) : "",
        place_of_death(start_up, *first_over(start_up, one)), advice(start_up, tier, fitting));
  }
  const std::int64_t both = states[Tier::device] + states[Tier::host];
  if (!shared || states[Tier::host] == 0 || both <= *shared) return {};
  return fmt::format(
      "it does not fit in memory: for its model states alone rank {} needs at least {} as device "
      "memory and {} as host memory, which are the same here: the budget is {}, {} missing.{} What "
      "would help: {}",
      start_up.rank, human_bytes(states[Tier::device]), human_bytes(states[Tier::host]),
      human_bytes(*shared), human_bytes(both - *shared),
      host_figures(f[Tier::host], ranks_per_node), advice(start_up, Tier::host, fitting));
}

}  // namespace shardmark
