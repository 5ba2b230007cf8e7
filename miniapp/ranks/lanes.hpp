// SPDX-License-Identifier: Apache-2.0
// The run's communicator with its decorators, from the inside: back-end, watchdog, delay, counters,
// faults. Counters lie beneath the faults, so that a call too many is counted like any other.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <mpi.h>

#include <comm/communicator.hpp>
#include <comm/decorators/counting.hpp>
#include <comm/decorators/watchdog.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {

/// What `backend` of a deck is on this build's device: `auto` is NCCL on a GPU, where there is
/// NCCL.
std::string_view device_backend(std::string_view backend);

/// Collective over `world`. What executor and self-check communicate on; `watch` and `counters`
/// must outlive it.
std::unique_ptr<Communicator> make_run_lane(const Deck& deck, MPI_Comm world, Watchdog& watch,
                                            Fault fault, CommCounters& counters);

/// The communicators of a program, one for each of its groups.
class Lanes {
 public:
  /// Collective over `world`, the communicator of the whole world with its decorators. Splits one
  /// off for each smaller group of `program`; decorators and counters work there too.
  Lanes(std::unique_ptr<Communicator> world, const Program& program);

  /// `by_group()[g]` belongs to Program::groups[g]. They live as long as this object.
  const std::vector<Communicator*>& by_group() const { return by_group_; }

 private:
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Communicator*> by_group_;
};

/// Collective over `world`. The driver's own lane: watched, neither counted nor delayed nor faulty.
std::unique_ptr<Communicator> make_driver_lane(MPI_Comm world, Watchdog& watch);

}  // namespace shardmark
