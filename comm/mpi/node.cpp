// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <vector>

#include <sched.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/node.hpp>
#include <comm/mpi/wait_all.hpp>
#include <comm/yield_hand_over.hpp>
#include <core/error.hpp>
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

cpu_set_t affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    throw CommError(std::string("affinity mask: cannot be read: ") + std::strerror(errno) +
                    ": this program supports at most " + std::to_string(CPU_SETSIZE) +
                    " cores per node");
  return mask;
}

std::string to_text(const cpu_set_t& mask) {
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &mask)) continue;
    const int first = core;
    while (core + 1 < CPU_SETSIZE && CPU_ISSET(core + 1, &mask)) ++core;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (core > first) text += '-' + std::to_string(core);
  }
  return text;
}

}  // namespace

std::vector<int> nodes_of_ranks(MPI_Comm comm, int part) {
  int ranks = 0;
  SHARDMARK_MPI(MPI_Comm_size(comm, &ranks));
  const std::uint64_t own = splitmix64(machine() ^ static_cast<std::uint64_t>(part));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks));
  SHARDMARK_MPI(MPI_Allgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm));
  std::unordered_map<std::uint64_t, int> lowest;
  std::vector<int> nodes;
  nodes.reserve(all.size());
  for (const std::uint64_t one : all)
    nodes.push_back(lowest.emplace(one, static_cast<int>(nodes.size())).first->second);
  return nodes;
}

OwnedComm ranks_of_node(MPI_Comm comm) {
  int rank = 0;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &rank));
  const int first = nodes_of_ranks(comm)[static_cast<std::size_t>(rank)];
  MPI_Comm node = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(comm, first, 0, &node));
  return OwnedComm(node);
}

Node find_node(MPI_Comm comm) {
  Node node;
  node.host = host_name();
  const OwnedComm shared = ranks_of_node(comm);
  SHARDMARK_MPI(MPI_Comm_size(shared.get(), &node.ranks));
  SHARDMARK_MPI(MPI_Comm_rank(shared.get(), &node.local_rank));
  const cpu_set_t own = affinity();
  cpu_set_t all, common;
  // Ranks that are bound to different cores do not compete, so the union of their cores counts.
  SHARDMARK_MPI(MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, shared.get()));
  SHARDMARK_MPI(MPI_Allreduce(&own, &common, sizeof own, MPI_BYTE, MPI_BAND, shared.get()));
  node.own_cores = CPU_COUNT(&own);
  node.cores = CPU_COUNT(&all);
  node.own_mask = to_text(own);
  node.unbound = CPU_EQUAL(&all, &common) != 0;
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
  const cpu_set_t all = affinity();
  int core = 0;
  for (int passed = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all) && passed++ == node.local_rank % node.cores) break;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return;  // it may run anywhere then
  node.own_cores = 1;
  node.own_mask = to_text(one);
}

}  // namespace shardmark
