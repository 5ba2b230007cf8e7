// SPDX-License-Identifier: Apache-2.0
// Which events touched a slot, found by place: a bucket may be touched piece by piece, thousands of
// times, and each new event asks which events it must come after.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The accesses to one slot that a later event may have to wait for. They are kept in order of
/// place, so asking and adding take logarithmic time however many pieces the slot has.
class Accesses {
 public:
  /// By queue, the newest event that has to be complete first; -1: none.
  using Newest = std::array<std::int32_t, queue_count>;

  void clear() {
    few_.clear();
    many_.clear();
  }

  /// Adds `event`'s access on `queue`. newest_conflicts must have been asked for it before: a write
  /// comes after everything that it overlaps, so accesses within its range are forgotten, and the
  /// beginning of those that reach beyond its end. What comes after the write comes after them,
  /// too. A read replaces earlier reads of the same range.
  void add(std::int32_t event, int queue, const Operand& o) {
    const Access access{event, queue, o.writes, o.offset, o.offset + o.elems};
    const auto obsolete = [&](const Access& a) {
      if (access.writes) return access.begin <= a.begin && a.end <= access.end;
      return !a.writes && a.queue == queue && a.begin == access.begin && a.end == access.end;
    };
    const auto loses_its_beginning = [&](const Access& a) {
      return access.writes && access.begin <= a.begin && a.begin < access.end;
    };
    std::erase_if(few_, obsolete);
    for (Access& a : few_)
      if (loses_its_beginning(a)) a.begin = access.end;
    for (auto& [kind, accesses] : many_) {
      if (!access.writes && kind != Kind(access)) continue;
      auto it = accesses.lower_bound(access.begin);
      while (it != accesses.end() && it->first < std::max(access.end, access.begin + 1)) {
        const auto found = it++;
        if (obsolete(found->second)) {
          accesses.erase(found);
        } else if (loses_its_beginning(found->second)) {
          auto shorter = accesses.extract(found);
          shorter.key() = shorter.mapped().begin = access.end;
          accesses.insert(std::move(shorter));
        }
      }
    }
    if (few_.size() < most_few) {
      few_.push_back(access);
    } else {
      many_[Kind(access)].emplace(access.begin, access);
    }
  }

  /// Raises `newest` to the events of other queues than `queue` that must not happen beside `o`:
  /// they overlap, and one of them writes. Returns how many accesses it looked at.
  std::int64_t newest_conflicts(const Operand& o, int queue, Newest& newest) const {
    const std::int64_t end = o.offset + o.elems;
    std::int64_t looked_at = 0;
    const auto look = [&](const Access& a) {
      ++looked_at;
      if (a.queue != queue && (a.writes || o.writes) && o.offset < a.end && a.begin < end)
        newest[a.queue] = std::max(newest[a.queue], a.event);
    };
    for (const Access& a : few_) look(a);
    for (const auto& [kind, accesses] : many_) {
      if (kind.queue == queue || (!kind.writes && !o.writes)) continue;
      const std::int64_t length =  // all accesses of this kind are shorter
          kind.bits < 63 ? std::int64_t{1} << kind.bits : std::numeric_limits<std::int64_t>::max();
      for (auto it = accesses.upper_bound(o.offset - length);
           it != accesses.end() && it->first < end; ++it)
        look(it->second);
    }
    return looked_at;
  }

 private:
  struct Access {
    std::int32_t event;
    int queue;
    bool writes;
    std::int64_t begin, end;  // elements
  };
  // What is searched, or passed over, together.
  struct Kind {
    explicit Kind(const Access& a)
        : queue(a.queue),
          writes(a.writes),
          bits(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(a.end - a.begin)))) {}
    int queue;
    bool writes;
    int bits;  // of its length
    auto operator<=>(const Kind&) const = default;
  };
  static constexpr std::size_t most_few = 12;

  std::vector<Access> few_;                                   // most slots have no more
  std::map<Kind, std::multimap<std::int64_t, Access>> many_;  // the others, by where they begin
};

}  // namespace shardmark
