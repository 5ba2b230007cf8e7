// SPDX-License-Identifier: Apache-2.0
// The run's communicator with its decorators, from the inside out: back-end, background traffic,
// watchdog, delay, counters, faults, proof. The counters are inside the faults, so they also count
// a call that a fault adds; the proof is outside them, so it sees what the program sees.
#pragma once

#include <memory>
#include <vector>

#include <mpi.h>

#include <comm/communicator.hpp>
#include <comm/decorators/counting.hpp>
#include <comm/decorators/watchdog.hpp>
#include <comm/mpi/background_traffic.hpp>
#include <comm/proof/proof.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective over `world`. Makes the communicator of the executor and of the self-check; `watch`
/// and `counters` must outlive it, and so must `traffic`, which it lets progress if it is not null.
std::unique_ptr<Communicator> make_run_lane(const Deck& deck, MPI_Comm world, Watchdog& watch,
                                            const InjectedFault& fault, CommCounters& counters,
                                            BackgroundTraffic* traffic = nullptr);

/// How a proof reads the buffers of the run's lane.
ProofOptions proof_options(const Deck& deck);

/// Collective. `inner` with its collectives proved; the ranks compare over the lane of `peers`,
/// which nothing else may use during a proved step. `proof` must outlive the result.
std::unique_ptr<Communicator> make_proved_lane(std::unique_ptr<Communicator> inner, Peers& peers,
                                               Proof& proof);

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
