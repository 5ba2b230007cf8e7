// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <vector>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>
#include <comm/mpi/unwatched_call.hpp>
#include <core/cpu_set.hpp>
#include <core/random.hpp>

namespace shardmark {
namespace {

std::string host_name() {
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  SHARDMARK_MPI(MPI_Get_processor_name(host, &length));
  return {host, static_cast<std::size_t>(length)};
}

// A number that identifies the machine: a hash of host name and boot id. Two hosts may have the
// same name, and a cloned virtual machine may have the boot id of its original.
std::uint64_t machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::uint64_t hash = 0;
  for (const char c : host_name() + '/' + boot)
    hash = splitmix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// A barrier that leaves the core to others.
void wait_asleep(MPI_Comm comm) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  SHARDMARK_MPI(MPI_Ibarrier(comm, &barrier));
  wait_all(&barrier, 1, {.sleep_ns = 100'000});
}

// Combines a set of each rank of `comm`, which need not have equally many words.
CpuSet combined(const CpuSet& own, MPI_Op operation, MPI_Comm comm) {
  std::vector<unsigned long> words = own.words();
  auto size = static_cast<int>(words.size());
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MAX, comm));
  words.resize(static_cast<std::size_t>(size));
  SHARDMARK_MPI(
      MPI_Allreduce(MPI_IN_PLACE, words.data(), size, MPI_UNSIGNED_LONG, operation, comm));
  return CpuSet::of_words(std::move(words));
}

}  // namespace

std::vector<int> nodes_of_ranks(MPI_Comm comm, int part) {
  const std::uint64_t own = splitmix64(machine() ^ static_cast<std::uint64_t>(part));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm_size(comm)));
  SHARDMARK_MPI(MPI_Allgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm));
  std::unordered_map<std::uint64_t, int> lowest;
  std::vector<int> nodes;
  nodes.reserve(all.size());
  for (const std::uint64_t one : all)
    nodes.push_back(lowest.emplace(one, static_cast<int>(nodes.size())).first->second);
  return nodes;
}

OwnedComm ranks_of_node(MPI_Comm comm) {
  const UnwatchedCall call("finding the ranks of a node");
  return OwnedComm::split(comm, nodes_of_ranks(comm)[static_cast<std::size_t>(comm_rank(comm))], 0);
}

Node find_node(MPI_Comm comm) {
  Node node;
  node.host = host_name();
  const OwnedComm shared = ranks_of_node(comm);
  node.ranks = comm_size(shared.get());
  node.local_rank = comm_rank(shared.get());
  const CpuSet own = CpuSet::of_process();
  // Ranks that are bound to different cores do not compete, so the union of their cores counts.
  const CpuSet all = combined(own, MPI_BOR, shared.get());
  node.own_cores = own.count();
  node.cores = all.count();
  node.own_mask = own.text();
  node.unbound = all == combined(own, MPI_BAND, shared.get()) && openmp_binding() == "false";
  const char* const shared_cores = std::getenv("SHARDMARK_SHARED_CORES");
  node.shares_cores = shared_cores != nullptr && *shared_cores == '1';
  int shared_anywhere = node.oversubscribed() ? 1 : 0;
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &shared_anywhere, 1, MPI_INT, MPI_MAX, comm));
  if (shared_anywhere == 0) return node;
  // Where hosts share cores (ci/hosts), a rank of another one may be on this core, and would keep
  // it if it spun in MPI meanwhile.
  wait_asleep(comm);
  if (node.oversubscribed()) node.yields = yield_hands_over();
  wait_asleep(comm);
  return node;
}

void spread_over_cores(Node& node) {
  if (!node.unbound || node.ranks <= node.cores || node.ranks % node.cores != 0) return;
  const std::vector<int> all = CpuSet::of_thread().cores();
  const CpuSet one({all[static_cast<std::size_t>(node.local_rank % node.cores)]});
  if (!one.bind_thread()) return;  // it may run anywhere then
  node.own_cores = 1;
  node.own_mask = one.text();
}

}  // namespace shardmark
