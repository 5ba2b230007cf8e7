// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <thread>

#include <Kokkos_Core.hpp>
#include <fmt/core.h>

#include <comm/mpi/mpi_world.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/device_memory.hpp>
#include <core/nn/kernels/threads.hpp>
#include <miniapp/provenance/failure_text.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/heap.hpp>
#include <miniapp/run/launch.hpp>

namespace shardmark {
namespace {

void print_error(const std::string& what) {
  if (!what.empty()) fmt::print(stderr, "shardmark: {}\n", what);
  std::fflush(stderr);
}

constexpr double start_timeout_s = 600;  // until the deck is read

// Launchers forward the output of ranks with a delay; an abort that overtakes it loses the message.
constexpr std::chrono::milliseconds time_to_forward{300};

// For an error that other ranks may not know. They might wait for this rank for ever, so all end.
[[noreturn]] void fail_alone(MPI_Comm world, int rank, const Failure& failure) {
  print_error(fmt::format("rank {}: {}", rank, failure_text(failure)));
  std::this_thread::sleep_for(time_to_forward);
  abort_all(world, failure.status);
}

class KokkosScope {
 public:
  explicit KokkosScope(int device) { initialize_kokkos(device); }
  ~KokkosScope() { Kokkos::finalize(); }
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
};

}  // namespace

ExitStatus launch(const std::function<ExitStatus(const World&)>& body) {
  keep_freed_memory();
  default_to_one_thread();
  int argc = 0;
  char** argv = nullptr;
  const MpiWorld world(argc, argv);
  try {
    const Node node = find_node(world.comm());
    Watchdog watch(world.comm(), start_timeout_s, node.idle());
    const auto driver_lane = make_driver_lane(world.comm(), watch);
    Peers peers(*driver_lane);
    try {
      int device = -1;
      peers.agree([&] { device = device_for(node.local_rank); });
      const KokkosScope kokkos(device);
      return body({world.comm(), node, watch, peers});
    } catch (const AgreedError& e) {
      print_error(failure_text({e.status(), e.what()}));
      return e.status();
    }
  } catch (...) {
    fail_alone(world.comm(), world.rank(), current_failure());
  }
}

}  // namespace shardmark
