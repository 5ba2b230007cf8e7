// SPDX-License-Identifier: Apache-2.0
// What a rank does between two polls while it waits. If there are more ranks than cores, the rank
// has to leave its core to the rank that it waits for: by spinning it would keep the core for a
// time slice of the scheduler, a hundred times longer than a short collective takes.
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

}  // namespace shardmark
