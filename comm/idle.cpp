// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>

#include <sched.h>

#include <comm/idle.hpp>
#include <core/clock.hpp>
#include <core/cpu_set.hpp>

namespace shardmark {
namespace {

constexpr int turns = 64;
constexpr std::int64_t most_ns = 10'000'000;
constexpr int trials = 3;  // another process may have had the core during one of them

// Counts up whenever it is the turn of `own`, 0 or 1, and yields in between.
void take_turns(int core, int own, std::int64_t end_ns, std::atomic<int>& turn) {
  if (!CpuSet({core}).bind_thread()) return;
  while (turn < turns && monotonic_ns() < end_ns) {
    if (turn % 2 == own)
      ++turn;
    else
      std::this_thread::yield();
  }
}

}  // namespace

bool yield_hands_over() try {
  const int core = sched_getcpu();
  if (core < 0) return false;
  for (int trial = 0; trial < trials; ++trial) {
    std::atomic<int> turn = 0;
    const std::int64_t end_ns = monotonic_ns() + most_ns;
    {
      const std::jthread first(take_turns, core, 0, end_ns, std::ref(turn));
      const std::jthread second(take_turns, core, 1, end_ns, std::ref(turn));
    }
    if (turn >= turns) return true;
  }
  return false;
} catch (const std::system_error&) {
  return false;
}

}  // namespace shardmark
