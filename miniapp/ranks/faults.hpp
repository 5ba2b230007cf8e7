// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_FAULT breaks a run on purpose, to show that the checks can fail.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardmark {

/// The faults that SHARDMARK_FAULT names; docs/valid.md says which check finds each of them.
enum class Fault : std::uint8_t {
  none,
  leak,         // a buffer is never released
  extra_call,   // one collective more than planned
  skip_wait,    // data is used before its collective is done
  flip_bit,     // a bit of received data flips on one rank
  stale_shard,  // an all_gather delivers the last content of one rank's shard
  nan,          // a gradient becomes not-a-number
  extra_copy,   // a copy between host and device is made once more than planned
  illegal_plan  // the plan is broken as by a defect of a schedule, so the run ends with status 70
};
std::string_view to_string(Fault fault);

/// Reads SHARDMARK_FAULT. Throws DeckError, which lists the names, if it is none of them.
Fault fault_from_environment();

}  // namespace shardmark
