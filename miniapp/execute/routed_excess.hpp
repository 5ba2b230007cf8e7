// SPDX-License-Identifier: Apache-2.0
// What learned routing made the ranks that divide experts send, beside what the plan has.
#pragma once

#include <comm/collective.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

/// By how much the routed all_to_alls of a rank have been larger than the plan's, in which routing
/// is balanced: what counters count of the calls, and what goes beneath them.
struct RoutedExcess {
  Traffic counted;
  Moved moved;

  /// Adds a call of a group of `ranks`, which differs from the planned one in its parts alone.
  void add(const Collective& planned, const Collective& made, int ranks) {
    constexpr int any = 0;  // what a rank sends and receives in parts is the sum of its own list
    const auto more = [&](auto count) {
      return count(made, any, ranks) - count(planned, any, ranks);
    };
    moved.send(more(sent_elems), made.dtype);
    moved.receive(more(received_elems), made.dtype);
    const std::int64_t elems = more(counted_elems);
    counted += {0, elems, elems * dtype_bytes(made.dtype)};
  }
};

}  // namespace shardmark
