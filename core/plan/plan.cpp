// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <core/plan/checked.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

std::int64_t alloc_bytes(const Slot& slot) {
  constexpr std::int64_t line_bytes = 64;
  const std::int64_t bytes = checked_mul(slot.elems, dtype_bytes(slot.dtype), slot.name);
  return std::max(line_bytes, round_up(bytes, line_bytes, slot.name));
}

const Segment* Program::find(SegmentKind kind) const {
  const auto it = std::find_if(segments.begin(), segments.end(),
                               [&](const Segment& s) { return s.kind == kind; });
  return it == segments.end() ? nullptr : &*it;
}

std::string_view to_string(SegmentKind kind) {
  static constexpr std::array<std::string_view, 7> names{
      "init", "micro_only", "micro_first", "micro_middle", "micro_last", "boundary", "update"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Gradients g) {
  static constexpr std::array<std::string_view, 3> names{"none", "accumulated", "reduced"};
  return names[static_cast<std::size_t>(g)];
}

std::vector<SegmentKind> step_segments(std::int64_t accumulation) {
  std::vector<SegmentKind> order;
  for (std::int64_t g = 0; g < accumulation; ++g) {
    const bool first = g == 0, last = g == accumulation - 1;
    order.push_back(first && last ? SegmentKind::micro_only
                    : first       ? SegmentKind::micro_first
                    : last        ? SegmentKind::micro_last
                                  : SegmentKind::micro_middle);
  }
  order.push_back(SegmentKind::boundary);
  order.push_back(SegmentKind::update);
  return order;
}

}  // namespace shardmark
