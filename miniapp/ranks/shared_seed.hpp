// SPDX-License-Identifier: Apache-2.0
// A random number that nobody can know before the ranks draw it.
#pragma once

#include <cstdint>
#include <random>

#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. The same number on all ranks, from the system's source of randomness on rank 0.
inline std::uint64_t shared_seed(Peers& peers) {
  std::random_device device;
  const std::uint64_t mine = static_cast<std::uint64_t>(device()) << 32 | device();
  return peers.gather(mine).front();
}

}  // namespace shardmark
