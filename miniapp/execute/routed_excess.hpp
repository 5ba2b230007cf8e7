// SPDX-License-Identifier: Apache-2.0
// What learned routing made the ranks that divide experts send, beside what the plan has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>

#include <comm/communicator.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

/// By how much the routed all_to_alls of a rank have been larger than the plan's, in which routing
/// is balanced: what counters count of the calls, and what goes beneath them.
struct RoutedExcess {
  Traffic counted;
  Moved moved;

  /// Adds a call. Both spans have what this rank sends to each rank of the group, and then what it
  /// receives from each, in elements of `dtype`.
  void add(std::span<const std::int64_t> planned, std::span<const std::int64_t> made, Dtype dtype) {
    const Sums plan(planned), call(made);
    moved.send(call.sent - plan.sent, dtype);
    moved.receive(call.received - plan.received, dtype);
    const std::int64_t elems = call.larger() - plan.larger();
    counted += {0, elems, elems * dtype_bytes(dtype)};
  }

 private:
  struct Sums {
    explicit Sums(std::span<const std::int64_t> parts) {
      const auto half = parts.begin() + static_cast<std::ptrdiff_t>(parts.size() / 2);
      sent = std::accumulate(parts.begin(), half, std::int64_t{0});
      received = std::accumulate(half, parts.end(), std::int64_t{0});
    }
    std::int64_t larger() const { return std::max(sent, received); }
    std::int64_t sent = 0, received = 0;
  };
};

}  // namespace shardmark
