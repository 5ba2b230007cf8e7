// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <sched.h>

#include <comm/mpi_check.hpp>
#include <comm/mpi_types.hpp>
#include <comm/node.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

cpu_set_t affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    throw CommError(std::string("affinity mask: cannot be read: ") + std::strerror(errno) +
                    ": machines with more than " + std::to_string(CPU_SETSIZE) +
                    " cores are not supported");
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

Node find_node(MPI_Comm comm) {
  Node node;
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  SHARDMARK_MPI(MPI_Get_processor_name(host, &length));
  node.host.assign(host, static_cast<std::size_t>(length));
  MPI_Comm shared = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared));
  const OwnedComm owner(shared);
  SHARDMARK_MPI(MPI_Comm_size(shared, &node.ranks));
  SHARDMARK_MPI(MPI_Comm_rank(shared, &node.local_rank));
  const cpu_set_t own = affinity();
  cpu_set_t all;
  // Ranks bound to cores of their own do not outnumber them: count the union.
  SHARDMARK_MPI(MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, shared));
  node.own_cores = CPU_COUNT(&own);
  node.cores = CPU_COUNT(&all);
  node.own_mask = to_text(own);
  return node;
}

}  // namespace shardmark
