// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_FAULT breaks a run on purpose, to show that the checks can fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <core/enum_array.hpp>

namespace shardmark {

/// The faults that SHARDMARK_FAULT names; docs/valid.md says which check finds each of them.
enum class Fault : std::uint8_t {
  none,
  leak,          // a buffer is never released
  extra_call,    // one collective more than planned
  skip_wait,     // data is used before its collective is done
  flip_bit,      // a bit of received data flips on one rank
  stale_shard,   // an all_gather delivers the last content of one rank's shard
  nan,           // a gradient becomes not-a-number
  extra_copy,    // a copy between host and device is made once more than planned
  illegal_plan,  // the plan is broken as by a defect of a schedule, so the run ends with status 70
  repeat_micro,  // the last micro-batch of step 5 is run twice
  wrong_update,  // updates are made with a learning rate that is too large
  fewer_elems,   // collectives carry fewer elements than planned, in as many calls
  overrun        // computations write beyond the end of their buffers
};
template<>
inline constexpr auto value_names<Fault> = name_list("none", "leak", "extra_call", "skip_wait",
                                                     "flip_bit", "stale_shard", "nan", "extra_copy",
                                                     "illegal_plan", "repeat_micro", "wrong_update",
                                                     "fewer_elems", "overrun");

/// A fault with the rank on which it happens.
struct InjectedFault {
  Fault kind = Fault::none;
  // A rank of the world. If empty, the last rank for faults that change received data, and all
  // ranks for the others.
  std::optional<int> rank = {};

  /// The fault that rank `mine` commits, or none.
  Fault on(int mine) const { return rank.value_or(mine) == mine ? kind : Fault::none; }
};
/// "flip_bit", "flip_bit:1".
std::string to_string(const InjectedFault& fault);

/// Reads SHARDMARK_FAULT, which is the name of a fault or NAME:RANK, in a run of `world` ranks.
/// Throws DeckError, which lists the names, if it is neither, if there is no such rank, or if the
/// fault is one that all ranks have to make together.
InjectedFault fault_from_environment(int world);

}  // namespace shardmark
