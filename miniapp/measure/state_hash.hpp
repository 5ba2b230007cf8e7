// SPDX-License-Identifier: Apache-2.0
// One number a state, whatever the partition: so that bitwise claims can be checked from outside.
#pragma once

#include <cstdint>
#include <string>

#include <core/plan/plan.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

// Only named: reports include this, and need no Kokkos.
struct Context;
class Executor;

/// The hash of each state.
struct StateHashes {
  std::uint64_t param = 0, master = 0, momentum = 0, variance = 0;
  /// Empty when replicas (or, of sharded states, the shards that replicas are made of) agree.
  std::string disagreement;
  bool operator==(const StateHashes&) const = default;
};

/// Collective. Hashes every state over all ranks and compares the replicas.
StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers);

}  // namespace shardmark
