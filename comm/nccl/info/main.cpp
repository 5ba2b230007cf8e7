// SPDX-License-Identifier: Apache-2.0
// Prints which NCCL the back-end was linked with and which devices it sees, the first things to
// know when a run does not start. Under mpiexec, `nccl_info` also creates a communicator over all
// ranks and runs one barrier.
#include <cstdio>

#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <core/gpu_runtime.hpp>

int main(int argc, char** argv) try {
  using namespace shardmark;
  const MpiWorld world(argc, argv);
  const Node node = find_node(world.comm());
  int devices = 0;
  SHARDMARK_RUNTIME(GetDeviceCount, &devices);
  std::printf("rank %d on %s (local rank %d of %d): %s, %d devices\n", world.rank(),
              node.host.c_str(), node.local_rank, node.ranks, nccl_library().c_str(), devices);
  if (devices == 0) return 1;
  SHARDMARK_RUNTIME(SetDevice, node.local_rank % devices);
  CommOptions options;
  options.idle = node.idle();
  const auto comm = make_nccl_communicator(world.comm(), options);
  run(*comm, Collective{});
  std::printf("rank %d of %d: a barrier passed\n", comm->rank(), comm->size());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "nccl_info: %s\n", e.what());
  return 1;
}
