// SPDX-License-Identifier: Apache-2.0
// What a program sends: the exact numbers of calls, elements and bytes of each collective.
#pragma once

#include <map>
#include <string_view>

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
/// The collectives of one segment that runs `times` times: those of one group, or all of them.
/// Throws SizeError beyond 63 bits.
Volume volume(const Segment& segment, int group = all_groups, std::int64_t times = 1);
/// The collectives of one step in the steady state.
Volume steady_volume(const Program& program, int group = all_groups);
/// Elements communicated per parameter. An all_reduce counts twice, other collectives once; padding
/// is included; the factor (N-1)/N is not, since it differs between groups. The ZeRO paper counts
/// like this in its section 7: 2 for stages 0 to 2, and 3 for stage 3.
double volume_per_parameter(const Program& program, const Volume& volume);

/// What a text adds to a volume: with one rank the calls are made, and send nothing. Else empty.
std::string_view volume_note(const Program& program);

/// Adds up two volumes, collective by collective.
void add(Volume& into, const Volume& from);

}  // namespace shardmark
