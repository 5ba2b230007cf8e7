// SPDX-License-Identifier: Apache-2.0
// Which addresses of an arena are taken at which times. The lowest free address for a slot is found
// without looking at every slot that was placed before, so that a layout takes n log n steps.
//
// Time is the range of a segment tree: each span of time is the union of a few of its nodes. A node
// keeps the addresses that are taken during all of its time (`whole`, where a span was split into
// this very node) and those that are taken during any of it (`any`). What is taken during a span is
// then `any` of the span's nodes and `whole` of the nodes above these.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace shardmark {

/// Half-open range of time, counted in acquires and releases.
struct TimeSpan {
  std::int64_t begin, end;
};
/// When a slot is alive: spans in ascending order, apart from each other.
using Lifetime = std::vector<TimeSpan>;

/// Address ranges of one arena with the times at which they are taken.
class OccupiedMemory {
 public:
  /// For lifetimes that end at `moments` at the latest.
  explicit OccupiedMemory(std::int64_t moments);

  /// Takes addresses [begin, end) during `time`.
  void take(const Lifetime& time, std::int64_t begin, std::int64_t end);
  /// The lowest address from `bottom` on at which `bytes` are free during all of `time`.
  std::int64_t lowest_free(const Lifetime& time, std::int64_t bottom, std::int64_t bytes);
  /// How many sets of addresses were searched or extended so far: a measure of the work done.
  std::int64_t work() const { return work_; }

 private:
  // Disjoint half-open ranges of addresses in ascending order; ranges that touch are merged.
  class Addresses {
   public:
    bool covers(std::int64_t begin, std::int64_t end) const;
    void add(std::int64_t begin, std::int64_t end);
    std::int64_t lowest_free(std::int64_t at, std::int64_t bytes) const;

   private:
    struct Block {
      std::int64_t begin, end;
    };
    std::vector<Block> blocks_;
  };
  static constexpr std::int32_t none = -1;

  template<class Each>
  void for_each_node(const Lifetime& time, Each each) const;
  Addresses& set_of(std::vector<std::int32_t>& sets, std::size_t node);
  void find_sets(const Lifetime& time);

  std::size_t leaves_;
  std::vector<std::int32_t> whole_, any_;  // by node; the root is 1, node n has 2 n and 2 n + 1
  std::vector<Addresses> sets_;
  std::vector<std::int32_t> found_;  // sets that count during the time that is being searched
  std::int64_t work_ = 0;
};

}  // namespace shardmark
