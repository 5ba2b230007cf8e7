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

/// Collective. A program's groups below the world, each split off `world` as a lane of its own;
/// decorators and counters go on in them.
std::vector<std::unique_ptr<Communicator>> make_group_lanes(Communicator& world,
                                                            const Program& program);
/// As the executor takes them: by index in Program::groups.
std::vector<Communicator*> all_lanes(Communicator& world,
                                     const std::vector<std::unique_ptr<Communicator>>& groups);

/// Collective over `world`. The driver's own lane: watched, neither counted nor delayed nor faulty.
std::unique_ptr<Communicator> make_driver_lane(MPI_Comm world, Watchdog& watch);

}  // namespace shardmark
