// SPDX-License-Identifier: Apache-2.0
// What a program sends, to the call: calls, elements and bytes by collective.
#pragma once

#include <map>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The number of calls of one kind, with their elements and bytes.
struct Traffic {
  std::int64_t calls = 0, elems = 0, bytes = 0;  // elems: nccl-tests' S, the whole array
  bool operator==(const Traffic&) const = default;
  Traffic& operator+=(const Traffic& other);
};

/// The traffic of each collective that occurs.
using Volume = std::map<Op, Traffic>;

inline constexpr int all_groups = -1;
/// Of one segment that runs `times` times; of one group's collectives, or of all.
Volume volume(const Segment& segment, int group = all_groups, std::int64_t times = 1);
/// Of one optimizer step, done or skipped.
Volume step_volume(const Program& program, const Step& step, bool skipped, int group = all_groups);
/// Of a step of the steady state.
Volume steady_volume(const Program& program, int group = all_groups);
/// In units of the parameter count: an all_reduce weighs 2, the others 1; padding included, without
/// the factor (N-1)/N, which differs between groups. The ZeRO paper's section 7 counts so: 2 for
/// stages 0 to 2, 3 for stage 3.
double volume_per_parameter(const Program& program, const Volume& volume);

/// Adds up two volumes, collective by collective.
void add(Volume& into, const Volume& from);

}  // namespace shardmark
