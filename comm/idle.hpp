// SPDX-License-Identifier: Apache-2.0
// What a waiting rank does between two looks. Where ranks outnumber cores it must leave the core to
// the one that it waits for: a spinning rank keeps it for a scheduler's time slice, a hundred times
// longer than a short collective takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace shardmark {

/// Long enough to leave the core, short against the transfer of a piece.
inline constexpr std::int64_t oversubscribed_sleep_ns = 20'000;

struct Idle {
  std::int64_t sleep_ns = 0;  // 0: look again at once, unless another process wants the core

  void pause() const {
    if (sleep_ns > 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
    else
      std::this_thread::yield();
  }
};

}  // namespace shardmark
