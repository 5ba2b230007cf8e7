// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/budget.hpp>
#include <core/memory/device_memory.hpp>
#include <io/files/page_buffer.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/setup.hpp>

namespace shardmark {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

// What a section's disk has free; files can be made on it, too.
std::int64_t usable_disk_bytes(const Deck& deck, const OffloadSpec& spec, const char* section) {
  try {
    const std::int64_t bytes = free_disk_bytes(spec.nvme_path);
    static_cast<void>(SwapFile(spec.nvme_path, 0));  // may it?
    return bytes;
  } catch (const IoError& e) {
    throw DeckError(fmt::format("{}: deepspeed.zero_optimization.{}.nvme_path: {}", deck.path,
                                section, e.what()));
  }
}

// Of two disks the fuller one counts: what does not fit there shows when the files are made.
void add_disk_budget(const Deck& deck, std::int64_t needed, int ranks_per_node, RunBudgets& r) {
  if (needed == 0) return;
  const auto nvme = static_cast<std::size_t>(Tier::nvme);
  const bool given = r.bytes[nvme].has_value();
  if (given) r.source[nvme] = "memory.nvme_gib of the deck";
  for (const auto& [spec, section] : {std::pair{&deck.zero.offload_optimizer, "offload_optimizer"},
                                      std::pair{&deck.zero.offload_param, "offload_param"}}) {
    if (!spec->nvme) continue;
    const std::int64_t bytes =
        usable_disk_bytes(deck, *spec, section) / std::max(1, ranks_per_node);
    if (given || (r.bytes[nvme] && *r.bytes[nvme] <= bytes)) continue;
    r.bytes[nvme] = bytes;
    r.source[nvme] = fmt::format("free on the disk of {} ({} rank{})", spec->nvme_path,
                                 ranks_per_node, ranks_per_node == 1 ? "" : "s");
  }
}

}  // namespace

Budgets deck_budgets(const Deck& deck, int ranks_per_node) {
  Budgets budgets;
  for (std::size_t t = 0; t < tier_count; ++t)
    if (deck.memory.budget_gib[t])
      budgets[t] = static_cast<std::int64_t>(std::llround(*deck.memory.budget_gib[t] * gib));
  for (Tier shared : {Tier::host, Tier::nvme})
    if (auto& budget = budgets[static_cast<std::size_t>(shared)])
      *budget /= std::max(1, ranks_per_node);
  return budgets;
}

RunBudgets run_budgets(const Deck& deck, const std::array<std::int64_t, tier_count>& needed,
                       int ranks_per_node) {
  const auto device = static_cast<std::size_t>(Tier::device);
  const auto host = static_cast<std::size_t>(Tier::host);
  RunBudgets r;
  r.bytes = deck_budgets(deck, ranks_per_node);
  const bool given[] = {r.bytes[device].has_value(), r.bytes[host].has_value()};
  for (Tier t : memory_tiers)
    if (given[static_cast<std::size_t>(t)])
      r.source[static_cast<std::size_t>(t)] =
          fmt::format("memory.{}_gib of the deck", to_string(t));
  add_disk_budget(deck, needed[static_cast<std::size_t>(Tier::nvme)], ranks_per_node, r);
  if (given[host] && ranks_per_node > 1)
    r.source[host] += fmt::format(", shared by {} ranks", ranks_per_node);
  if (given[device] && given[host]) return r;

  const FoundMemory found = find_memory(ranks_per_node);
  const auto apart = find_device_memory(ranks_per_node);  // of a device with memory of its own
  if (!apart && !given[device] && !given[host]) r.shared = found.bytes;
  for (const std::size_t t : {device, host}) {
    if (given[t]) continue;
    const FoundMemory& own = apart && t == device ? *apart : found;
    const std::int64_t other = apart ? 0 : needed[t == device ? host : device];
    r.bytes[t] = std::max<std::int64_t>(0, own.bytes - other);
    r.source[t] = own.source;
  }
  return r;
}

DiskOptions disk_options(const Deck& deck) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const AioSpec& aio = deck.zero.aio;
  const std::int64_t step = aio.block_size * std::min<std::int64_t>(aio.queue_depth, 1024);
  DiskOptions options;
  options.folder = deck.zero.offload_optimizer.nvme_path;
  options.param_folder = deck.zero.offload_param.nvme_path;
  options.step_bytes = std::clamp(step / page_bytes * page_bytes, page_bytes, most);
  options.timeout_s = deck.comm.timeout_s;
  return options;
}

FitBudget deck_fit_budget(const Deck& deck) {
  const auto device = deck_budgets(deck, 1)[static_cast<std::size_t>(Tier::device)];
  return {device.value_or(0), false, "memory.device_gib of the deck"};
}

FitBudget run_fit_budget(const Deck& deck, int ranks_per_node, Peers& peers) {
  FitBudget budget = deck_fit_budget(deck);
  FoundMemory found;
  peers.agree([&] {
    const auto device = find_device_memory(ranks_per_node);
    found = device ? *device : find_memory(ranks_per_node);
  });
  const auto least = peers.gather(found.bytes);
  if (budget.bytes > 0) return budget;
  return {*std::min_element(least.begin(), least.end()), true, found.source};
}

void require_a_layer(const Deck& deck, const Fit& fit) {
  if (fit.layers > 0) return;
  throw MemoryError(fmt::format(
      "{}: model.fit = {}: it does not fit in memory: {}. What would help: a larger model.fit or "
      "memory.device_gib, a smaller model.hidden, sequence or train_micro_batch_size_per_gpu, a "
      "higher ZeRO stage or smaller buckets of it",
      deck.path, fit.part, describe(fit)));
}

Profile run_profile(const Deck& deck, const Node& node, int world) {
  if (deck.comm.backend == "self" && world > 1)
    throw DeckError(
        fmt::format("{}: comm.backend = \"self\": {} ranks: must be one: start one rank, "
                    "or give \"shm\", \"mpi\" or \"auto\"",
                    deck.path, world));
  if (deck.comm.backend == "shm" && node.ranks < world)
    throw DeckError(fmt::format(
        "{}: comm.backend = \"shm\": {} of {} ranks are on {}: all must share one node: "
        "give \"mpi\" or \"auto\"",
        deck.path, node.ranks, world, node.host));
  if (deck.comm.backend == "nccl" && nccl_library().empty())
    throw DeckError(fmt::format(
        "{}: comm.backend = \"nccl\": this build has no NCCL: give \"auto\" or \"mpi\", or build "
        "with a Kokkos that computes on GPUs (README, GPUs)",
        deck.path));
  if (deck.comm.backend == "nccl" && deck.run.reductions == Reductions::ordered)
    throw DeckError(fmt::format(
        "{}: comm.backend = \"nccl\" with run.reductions = \"ordered\": not modelled yet: give "
        "\"native\", or \"mpi\"",
        deck.path));
  if (!device_is_host && (deck.zero.offload_optimizer.nvme || deck.zero.offload_param.nvme))
    throw DeckError(
        fmt::format("{}: deepspeed.zero_optimization: device = \"nvme\": states in files are not "
                    "there on CUDA yet: give \"cpu\"",
                    deck.path));
  if (const Fault fault = fault_from_environment();
      !device_is_host && fault != Fault::none && fault != Fault::leak && fault != Fault::nan &&
      fault != Fault::extra_call && fault != Fault::extra_copy)
    throw DeckError(
        fmt::format("environment: SHARDMARK_FAULT = {}: not there on CUDA yet: it looks "
                    "into buffers of the device: give leak, nan, extra_call or extra_copy",
                    to_string(fault)));
  Profile profile;
  profile.ranks_per_node = node.ranks;
  // Measured with oneDNN 2.6 on GPT-2's shapes: packed pieces take what one thread's default gives,
  // and each further thread at most 1.7 MB of scratch of its own.
  if (device_is_host)
    profile.workspace_cap_bytes += (Space().concurrency() - 1) * (std::int64_t{2} << 20);
  else
    profile.workspace_cap_bytes = std::int64_t{32} << 20;  // what cuBLASLt asks for at most
  const std::string backend(device_backend(deck.comm.backend));
  profile.backend = backend != "auto"     ? backend
                    : world == 1          ? "self"
                    : world == node.ranks ? "shm"
                                          : "mpi";
  return profile;
}

}  // namespace shardmark
