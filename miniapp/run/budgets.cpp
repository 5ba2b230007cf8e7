// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/memory/budget.hpp>
#include <core/memory/device_memory.hpp>
#include <core/text.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/run/budgets.hpp>

namespace shardmark {

namespace {

// The free bytes of a section's disk. Also proves that files can be created there.
std::int64_t usable_disk_bytes(const Deck& deck, const OffloadSpec& spec, const char* section) {
  try {
    const std::int64_t bytes = free_disk_bytes(spec.nvme_path);
    static_cast<void>(SwapFile(spec.nvme_path, 0));  // throws if it cannot be created
    return bytes;
  } catch (const IoError& e) {
    throw DeckError(fmt::format("{}: deepspeed.zero_optimization.{}.nvme_path: {}", deck.path,
                                section, e.what()));
  }
}

// With two disks, the one with less free space counts.
void add_disk_budget(const Deck& deck, std::int64_t needed, int ranks_per_node, RunBudgets& r) {
  if (needed == 0) return;
  constexpr Tier nvme = Tier::nvme;
  const bool given = r.bytes[nvme].has_value();
  if (given) r.source[nvme] = "memory.nvme_gib of the deck";
  for (const auto& [spec, section] : {std::pair{&deck.zero.offload_optimizer, "offload_optimizer"},
                                      std::pair{&deck.zero.offload_param, "offload_param"}}) {
    if (!spec->nvme) continue;
    const std::int64_t bytes =
        usable_disk_bytes(deck, *spec, section) / std::max(1, ranks_per_node);
    if (given || (r.bytes[nvme] && *r.bytes[nvme] <= bytes)) continue;
    r.bytes[nvme] = bytes;
    r.source[nvme] =
        fmt::format("free on the disk of {} ({})", spec->nvme_path, plural(ranks_per_node, "rank"));
  }
}

}  // namespace

Budgets deck_budgets(const Deck& deck, int ranks_per_node) {
  Budgets budgets;
  for (const Tier t : all_values<Tier>)
    if (deck.memory.budget_gib[t])
      budgets[t] = static_cast<std::int64_t>(std::llround(*deck.memory.budget_gib[t] * gib_bytes));
  for (Tier shared : {Tier::host, Tier::nvme})
    if (auto& budget = budgets[shared]) *budget /= std::max(1, ranks_per_node);
  return budgets;
}

RunBudgets run_budgets(const Deck& deck, const EnumArray<Tier, std::int64_t>& needed,
                       int ranks_per_node) {
  constexpr Tier device = Tier::device;
  constexpr Tier host = Tier::host;
  RunBudgets r;
  r.bytes = deck_budgets(deck, ranks_per_node);
  EnumArray<Tier, bool> given{};
  for (const Tier t : memory_tiers) given[t] = r.bytes[t].has_value();
  for (Tier t : memory_tiers)
    if (given[t]) r.source[t] = fmt::format("memory.{}_gib of the deck", to_string(t));
  add_disk_budget(deck, needed[Tier::nvme], ranks_per_node, r);
  if (given[host] && ranks_per_node > 1)
    r.source[host] += fmt::format(", shared by {} ranks", ranks_per_node);
  if (given[device] && given[host]) return r;

  const FoundMemory found = find_memory(ranks_per_node);
  const auto device_memory =
      find_device_memory(ranks_per_node);  // only of a device with its own memory
  if (!device_memory && !given[device] && !given[host]) r.shared = found.bytes;
  for (const Tier t : {device, host}) {
    if (given[t]) continue;
    const FoundMemory& own = device_memory && t == device ? *device_memory : found;
    const std::int64_t other = device_memory ? 0 : needed[t == device ? host : device];
    r.bytes[t] = std::max<std::int64_t>(0, own.bytes - other);
    r.source[t] = own.source;
  }
  return r;
}

FitBudget deck_fit_budget(const Deck& deck) {
  const auto device = deck_budgets(deck, 1)[Tier::device];
  return {device.value_or(0), false, "memory.device_gib of the deck"};
}

FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers) {
  FitBudget budget = deck_fit_budget(deck);
  FoundMemory found;
  peers.agree([&] {
    const auto device = find_device_memory(ranks_per_node);
    found = device ? *device : find_memory(ranks_per_node);
  });
  const std::int64_t least = std::ranges::min(peers.gather(found.bytes));
  return budget.bytes > 0 ? budget : FitBudget{least, true, found.source};
}

void require_a_layer(const Deck& deck, const Fit& fit) {
  if (fit.layers > 0) return;
  throw MemoryError(fmt::format(
      "{}: model.fit = {}: it does not fit in memory: {}. What would help: a larger model.fit or "
      "memory.device_gib, a smaller model.hidden, sequence or train_micro_batch_size_per_gpu, a "
      "higher ZeRO stage or smaller buckets of it",
      deck.path, fit.part, describe(fit)));
}

}  // namespace shardmark
