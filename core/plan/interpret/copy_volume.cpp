// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/interpret/copy_volume.hpp>

namespace shardmark {

void add(LinkVolume& into, const LinkVolume& from) {
  for (const Direction d : all_values<Direction>) {
    into[d].copies += from[d].copies;
    into[d].bytes += from[d].bytes;
  }
}

LinkVolume link_volume(const Segment& segment, std::int64_t times) {
  constexpr std::string_view what = "what a step copies";
  LinkVolume v;
  for (const Event& e : segment.events) {
    if (e.op != Op::copy) continue;
    LinkTraffic& t = v[direction_of(e)];
    t.copies += times;
    t.bytes = checked_add(t.bytes, checked_mul(times, e.elems * dtype_bytes(e.dtype), what), what);
  }
  return v;
}

LinkVolume steady_link_volume(const Program& program) {
  LinkVolume v;
  for (const SegmentRun& run : runs_of(program.steps[step_path(program, false).back()], false))
    for (int s : run.segments) add(v, link_volume(program.segments[s], run.times));
  return v;
}

}  // namespace shardmark
