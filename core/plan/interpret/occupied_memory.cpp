// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include <core/plan/interpret/occupied_memory.hpp>

namespace shardmark {

bool OccupiedMemory::Addresses::covers(std::int64_t begin, std::int64_t end) const {
  const auto block = std::ranges::lower_bound(blocks_, end, {}, &Block::end);
  return block != blocks_.end() && block->begin <= begin;
}

void OccupiedMemory::Addresses::add(std::int64_t begin, std::int64_t end) {
  const auto first = std::ranges::lower_bound(blocks_, begin, {}, &Block::end);
  auto last = first;
  for (; last != blocks_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    blocks_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    blocks_.erase(first + 1, last);
  }
}

std::int64_t OccupiedMemory::Addresses::lowest_free(std::int64_t at, std::int64_t bytes) const {
  auto block = std::ranges::upper_bound(blocks_, at, {}, &Block::end);
  for (; block != blocks_.end() && block->begin - at < bytes; ++block) at = block->end;
  return at;
}

OccupiedMemory::OccupiedMemory(std::int64_t moments)
    : leaves_(std::bit_ceil(static_cast<std::size_t>(std::max<std::int64_t>(1, moments)))),
      whole_(2 * leaves_, none),
      any_(2 * leaves_, none) {}

template<class Each>
void OccupiedMemory::for_each_node(const Lifetime& time, Each each) const {
  for (const TimeSpan& span : time) {
    std::size_t left = leaves_ + static_cast<std::size_t>(span.begin);
    std::size_t right = leaves_ + static_cast<std::size_t>(span.end);
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) each(left++);
      if (right % 2 == 1) each(--right);
    }
  }
}

OccupiedMemory::Addresses& OccupiedMemory::set_of(std::vector<std::int32_t>& sets,
                                                  std::size_t node) {
  ++work_;
  if (sets[node] == none) {
    sets[node] = static_cast<std::int32_t>(sets_.size());
    sets_.emplace_back();
  }
  return sets_[static_cast<std::size_t>(sets[node])];
}

void OccupiedMemory::take(const Lifetime& time, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  for_each_node(time, [&](std::size_t node) {
    set_of(whole_, node).add(begin, end);
    // What a node has, the nodes above it have, too: one that has it already ends the way up.
    for (; node > 0; node /= 2) {
      Addresses& any = set_of(any_, node);
      if (any.covers(begin, end)) return;
      any.add(begin, end);
    }
  });
}

void OccupiedMemory::find_sets(const Lifetime& time) {
  found_.clear();
  std::array<std::size_t, 64> passed{};  // by level: the last node that was passed on the way up
  for_each_node(time, [&](std::size_t node) {
    if (any_[node] != none) found_.push_back(any_[node]);
    for (node /= 2; node > 0; node /= 2) {
      std::size_t& last = passed[static_cast<std::size_t>(std::bit_width(node))];
      if (last == node) return;  // so were all nodes above it
      last = node;
      if (whole_[node] != none) found_.push_back(whole_[node]);
    }
  });
}

std::int64_t OccupiedMemory::lowest_free(const Lifetime& time, std::int64_t bottom,
                                         std::int64_t bytes) {
  find_sets(time);
  std::int64_t at = bottom;
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::int32_t set : found_) {
      const std::int64_t before = at;
      at = sets_[static_cast<std::size_t>(set)].lowest_free(at, bytes);
      moved = moved || at != before;
    }
    work_ += static_cast<std::int64_t>(found_.size());
  }
  return at;
}

}  // namespace shardmark
