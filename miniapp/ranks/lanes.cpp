// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <comm/decorators/congesting.hpp>
#include <comm/decorators/delaying.hpp>
#include <comm/decorators/faulty.hpp>
#include <comm/decorators/proving.hpp>
#include <comm/decorators/watching.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <core/kokkos_shim.hpp>
#include <core/read_back.hpp>
#include <miniapp/ranks/lanes.hpp>

namespace shardmark {
namespace {

CommFault comm_fault(const InjectedFault& fault) {
  switch (fault.kind) {
    // A device's back-end could not read the element, which the host holds.
    case Fault::extra_call:
      return fault.rank || !device_is_host ? CommFault::own_call : CommFault::extra_call;
    case Fault::fewer_elems: return CommFault::fewer_elems;
    case Fault::skip_wait: return CommFault::skip_wait;
    case Fault::flip_bit: return CommFault::flip_bit;
    case Fault::stale_shard: return CommFault::stale_shard;
    default: return CommFault::none;
  }
}

// Faults begin with the first collective and never end, in the self-check and in the run, as on a
// machine that is broken.
constexpr std::int64_t all_calls = INT64_MAX / 2;

CommOptions options_of(const Watchdog& watch, Reductions reductions) {
  CommOptions options;
  options.reductions = reductions;
  options.idle = watch.idle();
  return options;
}

// With the background traffic, if there is any, and the watchdog around it.
std::unique_ptr<Communicator> watched(std::unique_ptr<Communicator> lane, Watchdog& watch,
                                      BackgroundTraffic* traffic) {
  if (traffic != nullptr)
    lane = std::make_unique<CongestingCommunicator>(std::move(lane), *traffic);
  return std::make_unique<WatchingCommunicator>(std::move(lane), watch);
}

// `automatic` is NCCL on a GPU if the build has NCCL.
Backend device_backend(Backend backend) {
  const bool nccl = !device_is_host && backend == Backend::automatic && !nccl_library().empty();
  return nccl ? Backend::nccl : backend;
}

// The same for buffers in device memory: collectives are ordered with the compute stream, by NCCL
// or by staging through the host.
std::unique_ptr<Communicator> watched_on_device(Backend backend, MPI_Comm world, Watchdog& watch,
                                                Reductions reductions, BackgroundTraffic* traffic) {
  CommOptions options = options_of(watch, reductions);
  if (device_is_host) return watched(make_communicator(backend, world, options), watch, traffic);
  options.compute_stream = native_stream(Space());
  options.mpi.device_buffers = mpi_takes_device_buffers();
  auto lane = make_communicator(device_backend(backend), world, options);
  if (!lane->on_stream()) lane = stage_through_host(std::move(lane), options);
  return watched(std::move(lane), watch, traffic);
}

void read_from_device(void* to, const void* from, std::int64_t bytes) {
  copy_to_host(Space(), to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

std::unique_ptr<Communicator> make_run_lane(const Deck& deck, MPI_Comm world, Watchdog& watch,
                                            const InjectedFault& fault, CommCounters& counters,
                                            BackgroundTraffic* traffic) {
  auto lane = watched_on_device(deck.comm.backend, world, watch, deck.run.reductions, traffic);
  if (deck.comm.delay_ms > 0)
    lane = std::make_unique<DelayingCommunicator>(
        std::move(lane), static_cast<std::int64_t>(deck.comm.delay_ms * 1e6), watch.idle());
  lane = std::make_unique<CountingCommunicator>(std::move(lane), counters);
  if (const CommFault kind = comm_fault(fault); kind != CommFault::none) {
    const int rank = fault.rank.value_or(lane->size() - 1);
    lane = std::make_unique<FaultyCommunicator>(std::move(lane),
                                                FaultChoice{kind, rank, 1, all_calls});
  }
  return lane;
}

ProofOptions proof_options(const Deck& deck) {
  return {deck.run.reductions, device_is_host ? nullptr : &read_from_device};
}

std::unique_ptr<Communicator> make_proved_lane(std::unique_ptr<Communicator> inner, Peers& peers,
                                               Proof& proof) {
  return std::make_unique<ProvingCommunicator>(std::move(inner), peers.lane(), proof);
}

Lanes::Lanes(std::unique_ptr<Communicator> world, const Program& program) {
  Communicator& all = *world;
  owned_.push_back(std::move(world));
  for (std::size_t g = 1; g < program.groups.size(); ++g)
    owned_.push_back(all.split(program.groups[g].ranks.front(), all.rank()));
  for (const auto& lane : owned_) by_group_.push_back(lane.get());
}

std::unique_ptr<Communicator> make_driver_lane(MPI_Comm world, Watchdog& watch) {
  const CommOptions options = options_of(watch, Reductions::native);
  return watched(make_communicator(Backend::automatic, world, options), watch, nullptr);
}

}  // namespace shardmark
