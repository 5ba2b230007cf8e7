// SPDX-License-Identifier: Apache-2.0
// Measures scopes with the clock that the counters use, too.
#pragma once

#include <cstdint>

#include <core/clock.hpp>

namespace shardmark {

/// Adds the time of its scope, in ns, to `into`.
class ScopedTimer {
 public:
  explicit ScopedTimer(std::int64_t& into) : into_(into), start_ns_(monotonic_ns()) {}
  ~ScopedTimer() { into_ += monotonic_ns() - start_ns_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  std::int64_t& into_;
  std::int64_t start_ns_;
};

/// Seconds since `start_ns`, a time of monotonic_ns().
inline double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

}  // namespace shardmark
