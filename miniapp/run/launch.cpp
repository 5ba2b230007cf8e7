// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>  // defines which C library this is

#include <Kokkos_Core.hpp>
#include <fmt/core.h>

#include <comm/mpi/mpi_library.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/device_memory.hpp>
#include <core/nn/kernels/threads.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/ranks/deadline_guard.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/ranks/launcher.hpp>
#include <miniapp/ranks/stop_signals.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/launch.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace shardmark {

namespace {

// For an error that other ranks may not know. They might wait for this rank for ever, so all end.
[[noreturn]] void fail_alone(const MpiWorld& world, DeadlineGuard& guard, const Failure& failure) {
  guard.ends_with(failure.status);
  guard.begin("MPI_Abort", abort_limit_s);
  print_error(fmt::format("rank {}: {}", world.rank(), failure_text(failure)));
  abort_all(world.comm(), failure.status);
}

class KokkosScope {
 public:
  explicit KokkosScope(int device) { initialize_kokkos(device); }
  ~KokkosScope() { Kokkos::finalize(); }
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
};

// Everything between MPI_Init and MPI_Finalize. The last phase that it begins is still guarded when
// it returns.
ExitStatus run_in(const MpiWorld& world, DeadlineGuard& guard,
                  const std::function<ExitStatus(const World&)>& body) {
  try {
    guard.begin("start-up: duplicating communicators", start_limit_s);
    Node node = find_node(world.comm());
    spread_over_cores(node);
    Watchdog watch(world.comm(), guard.limited(start_limit_s), node.idle());
    const auto driver_lane = make_driver_lane(world.comm(), watch);
    Peers peers(*driver_lane);
    guard.end();
    const auto close = [&](ExitStatus status) {
      guard.ends_with(status);
      guard.begin("closing communicators", end_limit_s);
      return status;
    };
    try {
      int device = -1;
      peers.agree([&] { device = device_for(node.local_rank); });
      const KokkosScope kokkos(device);
      return close(body({world.comm(), node, watch, peers, guard}));
    } catch (const AgreedError& e) {
      print_error(failure_text({e.status(), e.what()}));
      return close(e.status());
    }
  } catch (...) {
    fail_alone(world, guard, current_failure());
  }
}

}  // namespace

ExitStatus launch(const std::function<ExitStatus(const World&)>& body) {
  keep_freed_memory();
  default_to_one_thread();
  catch_stop_signals();
  DeadlineGuard& guard = DeadlineGuard::start();
  int argc = 0;
  char** argv = nullptr;
  guard.begin("start-up: MPI_Init", start_limit_s);
  const MpiWorld world(argc, argv);
  if (const auto why = wrong_launcher(world.size(), mpi_library())) throw DeckError(*why);
  const ExitStatus status = run_in(world, guard, body);
  guard.begin("MPI_Finalize", end_limit_s);  // and what follows, to the end of the process
  return status;
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  // A refusal costs only time, so it is not an error.
  static_cast<void>(mallopt(M_MMAP_MAX, 0));  // large blocks come from the heap, not from mmap
  static_cast<void>(
      mallopt(M_TRIM_THRESHOLD, 0x7fffffff));  // and the end of the heap stays with the process
  static_cast<void>(mallopt(M_TOP_PAD, 16 << 20));
#endif
}

void give_back_freed_memory() {
#if defined(__GLIBC__)
  static_cast<void>(malloc_trim(0));  // returns false if there is nothing to return
#endif
}

}  // namespace shardmark
