// SPDX-License-Identifier: Apache-2.0
// What a rank does between two polls while it waits. If there are more ranks than cores, the rank
// has to leave its core to the rank that it waits for: by spinning it would keep the core for a
// time slice of the scheduler, a hundred times longer than a short collective takes. Where a yield
// hands the core over (`yield_hands_over`), it is the fastest way: 4 ranks on 2 cores reduce
// 24 MiB in 9 ms with yields and in 28 ms with sleeps, each of which takes some 70 us.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace shardmark {

/// Long enough for a context switch, short compared with the transfer of a piece.
inline constexpr std::int64_t oversubscribed_sleep_ns = 20'000;

/// How a waiting rank pauses.
struct Idle {
  std::int64_t sleep_ns = 0;  // 0: yield to other processes, then poll again at once

  void pause() const {
    if (sleep_ns > 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
    else
      std::this_thread::yield();
  }
};

/// Whether a thread that yields lets another one on the same core run at once. Linux does so since
/// 6.18; earlier kernels may return to the thread that yields until its time slice is over. Tried
/// with two threads on the core of the caller, which takes less than 1 ms if so and 30 ms if not.
/// False, too, where other processes keep that core busy, or where no threads can be made.
bool yield_hands_over();

}  // namespace shardmark
