// SPDX-License-Identifier: Apache-2.0
// A set of disjoint half-open ranges of elements, such as the parts of a buffer that are defined.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace shardmark {

/// A set of elements, kept as its maximal ranges.
class Intervals {
 public:
  void clear() { end_of_.clear(); }

  /// Adds [first, end). Ranges that touch are merged.
  void add(std::int64_t first, std::int64_t end) {
    if (first >= end) return;
    auto it = end_of_.upper_bound(first);
    if (it != end_of_.begin() && std::prev(it)->second >= first) {
      --it;
      first = it->first;
      end = std::max(end, it->second);
      it = end_of_.erase(it);
    }
    while (it != end_of_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = end_of_.erase(it);
    }
    end_of_[first] = end;
  }

  /// Removes [first, end).
  void remove(std::int64_t first, std::int64_t end) {
    if (first >= end) return;
    auto it = end_of_.upper_bound(first);
    if (it != end_of_.begin()) --it;
    while (it != end_of_.end() && it->first < end) {
      const auto [begin, last] = *it;
      if (last <= first) {
        ++it;
        continue;
      }
      it = end_of_.erase(it);
      if (begin < first) end_of_[begin] = first;
      if (last > end) end_of_[end] = last;
    }
  }

  /// Calls `f(first, end)` for each part of [first, end) that is in the set, in order.
  template<class F>
  void for_each_in(std::int64_t first, std::int64_t end, F f) const {
    auto it = end_of_.upper_bound(first);
    if (it != end_of_.begin()) --it;
    for (; it != end_of_.end() && it->first < end; ++it) {
      const std::int64_t from = std::max(first, it->first), to = std::min(end, it->second);
      if (from < to) f(from, to);
    }
  }

  /// Whether any of [first, end) is in the set.
  bool touches(std::int64_t first, std::int64_t end) const {
    bool any = false;
    for_each_in(first, end, [&](std::int64_t, std::int64_t) { any = true; });
    return any;
  }

  /// Whether all of [first, end) is in the set. An empty range always is.
  bool covers(std::int64_t first, std::int64_t end) const {
    if (first >= end) return true;
    auto it = end_of_.upper_bound(first);
    return it != end_of_.begin() && std::prev(it)->second >= end;
  }

 private:
  std::map<std::int64_t, std::int64_t> end_of_;  // first -> end
};

}  // namespace shardmark
