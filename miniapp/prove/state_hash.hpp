// SPDX-License-Identifier: Apache-2.0
// One number per state that does not depend on the partition, so that anyone can compare runs bit
// for bit.
#pragma once

#include <cstdint>
#include <string>

#include <core/plan/plan.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

// Declared only, so that reports, which include this file, need no Kokkos.
struct Context;
class Executor;

/// The hash of each state.
struct StateHashes {
  EnumArray<State, std::uint64_t> of{};
  /// Empty if replicas agree; of sharded states, the shards that replicas consist of.
  std::string disagreement;
  bool operator==(const StateHashes&) const = default;
};

/// Collective. Hashes every state over all ranks and compares the replicas.
StateHashes hash_states(const Context& context, const Program& program, const Executor& executor,
                        Peers& peers);

}  // namespace shardmark
