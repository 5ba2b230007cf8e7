// SPDX-License-Identifier: Apache-2.0
// The time that a stream spends in products, by events around each of them. The host does not wait
// while products are enqueued: it reads the events of long ago when it needs theirs again, and all
// of them when it is asked for the sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <core/gpu_runtime.hpp>

namespace shardmark::device {

/// Times products on one stream. Local; not thread-safe.
class ProductTimes {
 public:
  ProductTimes() = default;
  ~ProductTimes();
  ProductTimes(const ProductTimes&) = delete;
  ProductTimes& operator=(const ProductTimes&) = delete;

  /// Enqueues events before and after the product that is enqueued in between.
  void begin(device::Stream stream);
  void end(device::Stream stream);

  /// Waits for the product that was enqueued last, and returns its time in nanoseconds.
  std::int64_t last_ns();
  /// Waits for all products, and returns the sum of their times in nanoseconds.
  std::int64_t total_ns();

 private:
  // At most this many products are in flight; the host then waits for the oldest one.
  static constexpr std::size_t most_in_flight = 1024;
  using Pair = std::array<device::Event, 2>;

  static std::int64_t elapsed_ns(const Pair& pair);

  std::vector<Pair> pairs_;                // used in turns
  std::size_t first_ = 0, in_flight_ = 0;  // the pairs whose times are not in sum_ns_ yet
  std::int64_t sum_ns_ = 0;
};

}  // namespace shardmark::device
