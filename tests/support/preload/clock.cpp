// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_CLOCK="0.01": the monotonic clock of every rank runs at this speed.
#include <cstdlib>
#include <ctime>

#include "rank.hpp"
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const char* const text = std::getenv("SHARDMARK_TEST_CLOCK");
  static const double speed = text != nullptr ? std::atof(text) : 1;
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  if (text == nullptr || clock != CLOCK_MONOTONIC || shardmark::test::preload::launched_rank() < 0)
    return static_cast<int>(result);
  static const time_t start = time->tv_sec;
  const double passed =
      static_cast<double>(time->tv_sec - start) + 1e-9 * static_cast<double>(time->tv_nsec);
  const double slow = passed * speed;
  time->tv_sec = start + static_cast<time_t>(slow);
  time->tv_nsec = static_cast<long>((slow - static_cast<double>(static_cast<time_t>(slow))) * 1e9);
  return static_cast<int>(result);
}
