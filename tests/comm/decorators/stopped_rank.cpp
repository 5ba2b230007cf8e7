// SPDX-License-Identifier: Apache-2.0
// Three ranks, one of which stops itself halfway. stopped_rank.sh runs this program and checks its
// output, its exit status and that no process remains.
#include <csignal>
#include <cstdio>

#include <unistd.h>

#include <comm/decorators/watching.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>

int main(int argc, char** argv) {
  using namespace shardmark;
  const MpiWorld world(argc, argv);
  try {
    CommOptions options;
    options.idle = find_node(world.comm()).idle();
    Watchdog watch(world.comm(), 1.0, options.idle);
    WatchingCommunicator comm(make_communicator(Backend::automatic, world.comm(), options), watch);
    std::printf("rank %d pid %d\n", world.rank(), static_cast<int>(getpid()));
    std::fflush(stdout);
    float value = 1;
    Collective c;
    c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = 1;
    c.send = c.recv = &value;
    c.name = "grad.block3";
    for (int call = 1; call <= 1000; ++call) {
      if (call == 17 && world.rank() == 1 && std::raise(SIGSTOP) != 0) return 1;
      run(comm, c);
    }
  } catch (const Error& e) {
    std::fprintf(stderr, "shardmark: %s\n", e.what());
    abort_all(world.comm(), e.status());
  }
  std::puts("finished");
  return 0;
}
