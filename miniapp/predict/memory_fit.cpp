// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/text.hpp>
#include <miniapp/predict/memory_fit.hpp>

namespace shardmark {
namespace {

std::string_view memory_of(Tier tier) {
  static constexpr auto names = enum_names<Tier>("device memory", "host memory", "disk");
  return names[tier];
}

// Returns by how much `bytes` exceed the budget of a tier, and the event that first exceeds it.
MemoryFit::Need need_of(const Program& program, Tier tier, std::int64_t bytes,
                        const Budgets& budgets) {
  MemoryFit::Need need;
  need.bytes = bytes;
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

std::int64_t together(const MemoryFit& fit) {
  return fit.tiers[Tier::device].bytes + fit.tiers[Tier::host].bytes;
}

// Includes one more rank. The refusal is that of the rank whose figures are shown.
void include(MemoryFit& fit, const Program& program, int ranks_per_node,
             std::optional<std::int64_t> shared) {
  bool needs_more = fit.refusal.empty();
  const auto bytes = allocated_bytes(program);
  for (const Tier t : all_values<Tier>) {
    if (bytes[t] <= fit.tiers[t].bytes) continue;
    fit.tiers[t] = need_of(program, t, bytes[t], fit.budgets);
    needs_more = needs_more || fit.tiers[t].missing > 0;
  }
  if (!needs_more) return;
  std::optional<std::string> why = over_budget(program, fit.budgets, ranks_per_node);
  if (!why && shared) {
    why = over_shared_budget(program, *shared, ranks_per_node);
    if (why) fit.missing_together = together(fit) - *shared;
  }
  if (why) fit.refusal = *why;
}

// The budget of device and host, if they are one memory and the deck does not divide it.
std::optional<std::int64_t> shared_budget(const Deck& deck, const Machine& machine,
                                          const Budgets& budgets) {
  if (!machine.device.is_host || deck.memory.budget_gib[Tier::device] ||
      deck.memory.budget_gib[Tier::host])
    return std::nullopt;
  return budgets[Tier::device] ? budgets[Tier::device] : budgets[Tier::host];
}

std::string budget_source_of(const Deck& deck, const Machine& machine, int ranks_per_node,
                             Tier tier) {
  if (deck.memory.budget_gib[tier])
    return fmt::format("memory.{}_gib of the deck", to_string(tier));
  const auto bytes = [](double value) { return human_bytes(std::llround(value)); };
  const auto shared = [&](double node_bytes, std::string_view what) {
    return fmt::format("{} of a node's {} of {}",
                       ranks_per_node > 1 ? fmt::format("1/{}", ranks_per_node) : "all",
                       bytes(node_bytes), what);
  };
  switch (tier) {
    case Tier::device:
      return fmt::format("{:.0f} % of a device's {}", usable_device_part * 100,
                         bytes(machine.device.memory_bytes));
    case Tier::host: return shared(machine.node.host_memory_bytes, "host memory");
    case Tier::nvme: break;
  }
  return shared(machine.node.disk_bytes, "disks");
}

MemoryFit empty_fit(const Deck& deck, const Machine& machine, int ranks_per_node) {
  MemoryFit fit;
  fit.budgets = budgets_of(deck, machine, ranks_per_node);
  for (const Tier t : all_values<Tier>)
    if (fit.budgets[t]) fit.budget_source[t] = budget_source_of(deck, machine, ranks_per_node, t);
  return fit;
}

}  // namespace

bool is_tight(std::int64_t bytes, const std::optional<std::int64_t>& budget) {
  return budget && bytes <= *budget &&
         static_cast<double>(bytes) > (1 - tight_part) * static_cast<double>(*budget);
}

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
      add_item(text,
               fmt::format("{} of {} missing at {}", human_bytes(tiers[t].missing), memory_of(t),
                           tiers[t].at),
               "; ");
  return text.empty() ? refusal : text;
}

std::string MemoryFit::tightness() const {
  std::string text;
  for (const Tier t : all_values<Tier>)
    if (fits() && is_tight(tiers[t].bytes, budgets[t])) {
      const std::int64_t left = *budgets[t] - tiers[t].bytes;
      text += fmt::format("{}{} ({:.1f} %) of the budget of {}",
                          text.empty() ? "it fits tightly: " : " and ", human_bytes(left),
                          100 * static_cast<double>(left) / static_cast<double>(*budgets[t]),
                          memory_of(t));
    }
  return text.empty() ? text : text + " are left";
}

std::int64_t MemoryFit::most_missing() const {
  return std::max(missing_together, std::ranges::max(tiers, {}, &Need::missing).missing);
}

std::string MemoryFit::lack() const {
  for (const Tier t : all_values<Tier>)
    if (const Need& need = tiers[t]; need.missing > 0 && need.missing == most_missing())
      return fmt::format("it needs {} of {} per rank and there are {}: {} are missing{}",
                         human_bytes(*budgets[t] + need.missing), memory_of(t),
                         human_bytes(*budgets[t]), human_bytes(need.missing),
                         need.at.empty() ? "" : " at " + need.at);
  return refusal;
}

MemoryFit memory_fit(const Deck& deck, const Program& own, const Machine& machine,
                     int ranks_per_node) {
  MemoryFit fit = empty_fit(deck, machine, ranks_per_node);
  const auto shared = shared_budget(deck, machine, fit.budgets);
  include(fit, own, ranks_per_node, shared);
  const Profile profile{.ranks_per_node = ranks_per_node};
  for (const int rank : heaviest_ranks(deck, own.world))
    if (rank != own.rank)
      include(fit, build_program(deck, own.batch, own.world, rank, profile), ranks_per_node,
              shared);
  return fit;
}

MemoryFit memory_fit(const Deck& deck, const EnumArray<Tier, std::int64_t>& bytes,
                     const Machine& machine, int ranks_per_node) {
  MemoryFit fit = empty_fit(deck, machine, ranks_per_node);
  for (const Tier t : all_values<Tier>) {
    fit.tiers[t].bytes = bytes[t];
    if (fit.budgets[t])
      fit.tiers[t].missing = std::max<std::int64_t>(0, bytes[t] - *fit.budgets[t]);
  }
  if (const auto shared = shared_budget(deck, machine, fit.budgets);
      shared && bytes[Tier::host] > 0)
    fit.missing_together = std::max<std::int64_t>(0, together(fit) - *shared);
  if (fit.missing_together > 0)
    fit.refusal = fmt::format("device and host are one memory and {} of it are missing per rank",
                              human_bytes(fit.missing_together));
  if (const std::string lack = fit.lack(); !lack.empty()) fit.refusal = lack;
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
    tier["tight"] = fit.fits() && is_tight(need.bytes, fit.budgets[t]);
    if (!need.at.empty()) tier["at"] = need.at;
  }
  return json;
}

}  // namespace shardmark
