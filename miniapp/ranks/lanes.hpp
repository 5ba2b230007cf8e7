// SPDX-License-Identifier: Apache-2.0
// The run's communicator with its decorators, from the inside out: back-end, watchdog, delay,
// counters, faults. The counters are inside the faults, so they also count a call that a fault
// adds.
#pragma once

#include <memory>
#include <vector>

#include <mpi.h>

#include <comm/communicator.hpp>
#include <comm/decorators/counting.hpp>
#include <comm/decorators/watchdog.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {

/// Collective over `world`. Makes the communicator of the executor and of the self-check; `watch`
/// and `counters` must outlive it.
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

/// Collective over `world`. Makes the communicator of the driver's own messages, which is watched,
/// but neither counted nor delayed, and has no faults.
std::unique_ptr<Communicator> make_driver_lane(MPI_Comm world, Watchdog& watch);

}  // namespace shardmark
