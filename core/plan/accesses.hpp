// SPDX-License-Identifier: Apache-2.0
// Which events touched a slot, found by place: a bucket may be touched piece by piece, thousands of
// times, and each new event asks who was there before.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>

#include <core/plan/plan.hpp>

namespace shardmark {

class Accesses {
 public:
  void clear() { by_length_.clear(); }

  /// Takes the place of earlier accesses to the same range from the same queue, if what comes after
  /// this one cannot but come after those.
  void add(std::int32_t event, int queue, const Operand& o) {
    auto& accesses = by_length_[std::bit_width(static_cast<std::uint64_t>(o.elems))];
    const auto [first, last] = accesses.equal_range(o.offset);
    for (auto it = first; it != last;) {
      const Access& a = it->second;
      const bool replaced =
          a.queue == queue && a.operand.elems == o.elems && (o.writes || !a.operand.writes);
      it = replaced ? accesses.erase(it) : std::next(it);
    }
    accesses.emplace(o.offset, Access{event, queue, o});
  }

  /// Calls `f(event)` for each access that must not happen beside `o`: they overlap, and one
  /// writes.
  template<class F>
  void for_each_conflict(const Operand& o, const F& f) const {
    const std::int64_t end = o.offset + o.elems;
    for (const auto& [bits, accesses] : by_length_) {
      const std::int64_t length =  // all of these are shorter
          bits < 63 ? std::int64_t{1} << bits : std::numeric_limits<std::int64_t>::max();
      for (auto it = accesses.upper_bound(o.offset - length);
           it != accesses.end() && it->first < end; ++it) {
        const Operand& a = it->second.operand;
        if ((a.writes || o.writes) && o.offset < a.offset + a.elems) f(it->second.event);
      }
    }
  }

 private:
  struct Access {
    std::int32_t event;
    int queue;
    Operand operand;
  };
  std::map<int, std::multimap<std::int64_t, Access>> by_length_;  // bits of it; then by offset
};

}  // namespace shardmark
