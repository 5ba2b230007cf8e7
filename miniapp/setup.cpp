// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <core/kokkos_shim.hpp>
#include <core/memory/budget.hpp>
#include <core/nn/library.hpp>
#include <miniapp/setup.hpp>
#include <miniapp/version.hpp>

namespace shardmark {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

}  // namespace

std::string version() {
  return SHARDMARK_VERSION;
}

Budgets deck_budgets(const Deck& deck) {
  Budgets budgets;
  for (std::size_t t = 0; t < tier_count; ++t)
    if (deck.memory.budget_gib[t])
      budgets[t] = static_cast<std::int64_t>(std::llround(*deck.memory.budget_gib[t] * gib));
  return budgets;
}

RunBudgets run_budgets(const Deck& deck, const std::array<std::int64_t, tier_count>& needed,
                       int ranks_per_node) {
  RunBudgets r;
  r.bytes = deck_budgets(deck);
  for (Tier t : {Tier::device, Tier::host}) {
    const auto i = static_cast<std::size_t>(t);
    if (r.bytes[i]) {
      r.source[i] = fmt::format("memory.{}_gib of the deck", to_string(t));
      continue;
    }
    const FoundMemory found = find_memory(ranks_per_node);
    const Tier other = t == Tier::device ? Tier::host : Tier::device;
    r.bytes[i] = std::max<std::int64_t>(0, found.bytes - needed[static_cast<std::size_t>(other)]);
    r.source[i] = found.source;
  }
  return r;
}

std::map<std::string, std::string> library_versions() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  std::string mpi = "unknown";
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS)
    mpi = std::string(text, static_cast<std::size_t>(length));
  mpi = mpi.substr(0, mpi.find('\n'));
  std::replace(mpi.begin(), mpi.end(), '\t', ' ');
  // MPICH's algorithm for a reduce_scatter is chosen before MPI starts (comm/mpi_tuning).
  constexpr const char* setting = "MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM";
  const char* value = std::getenv(setting);
  return {{"shardmark", version()},
          {"mpi_setting", fmt::format("{}={}", setting, value != nullptr ? value : "")},
          {"kokkos", fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
                                 KOKKOS_VERSION % 100)},
          {"execution_space", Space::name()},
          {"mpi", mpi},
          {"matmul", matmul_library()},
          {"compiler", SHARDMARK_COMPILER}};
}

std::vector<RankInfo> rank_infos(const Node& node, Peers& peers) {
  const auto hosts = peers.gather(node.host);
  const auto cores = peers.gather(node.own_mask);
  const auto pids = peers.gather(static_cast<int>(getpid()));
  std::vector<RankInfo> infos;
  for (std::size_t r = 0; r < hosts.size(); ++r) infos.push_back({hosts[r], cores[r], pids[r]});
  return infos;
}

std::vector<std::string> placement_warnings(const Node& node) {
  std::vector<std::string> list;
  const int threads = Space().concurrency();
  if (node.oversubscribed())
    list.push_back(fmt::format("{} ranks share {} cores of {}: times say little", node.ranks,
                               node.cores, node.host));
  if (threads > node.own_cores)
    list.push_back(fmt::format("{} threads a rank on {} cores", threads, node.own_cores));
  return list;
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
  Profile profile;
  profile.ranks_per_node = node.ranks;
  // Measured with oneDNN 2.6 on GPT-2's shapes: packed pieces take what one thread's default gives,
  // and each further thread at most 1.7 MB of scratch of its own.
  profile.workspace_cap_bytes += (Space().concurrency() - 1) * (std::int64_t{2} << 20);
  profile.backend = deck.comm.backend != "auto" ? deck.comm.backend
                    : world == 1                ? "self"
                    : world == node.ranks       ? "shm"
                                                : "mpi";
  return profile;
}

}  // namespace shardmark
