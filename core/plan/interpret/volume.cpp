// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

Traffic& Traffic::operator+=(const Traffic& other) {
  calls += other.calls;
  elems += other.elems;
  bytes += other.bytes;
  return *this;
}

void add(Volume& into, const Volume& from) {
  for (const auto& [op, traffic] : from) into[op] += traffic;
}

Volume volume(const Segment& segment, int group, std::int64_t times) {
  Volume v;
  for (const Event& e : segment.events)
    if (is_collective(e.op) && (group == all_groups || e.group == group))
      v[e.op] += {1, e.elems, e.elems * dtype_bytes(e.dtype)};
  if (times == 1) return v;
  for (auto& [op, traffic] : v)
    for (std::int64_t* count : {&traffic.calls, &traffic.elems, &traffic.bytes})
      *count = checked_mul(*count, times, "what the collectives of a step send");
  return v;
}

Volume steady_volume(const Program& program, int group) {
  Volume v;
  for (const SegmentRun& run : runs_of(program.steps[step_path(program, false).back()], false))
    for (int segment : run.segments) add(v, volume(program.segments[segment], group, run.times));
  return v;
}

double volume_per_parameter(const Program& program, const Volume& volume) {
  double weighed = 0;
  for (const auto& [op, traffic] : volume)
    weighed += (op == Op::all_reduce ? 2.0 : 1.0) * static_cast<double>(traffic.elems);
  return weighed / static_cast<double>(program.model.elems);
}

std::string_view volume_note(const Program& program) {
  return program.world == 1 ? "; with one rank these calls send nothing" : "";
}

}  // namespace shardmark
