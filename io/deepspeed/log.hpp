// SPDX-License-Identifier: Apache-2.0
// The part of a DeepSpeed config that is about logs: comms_logger, wall_clock_breakdown,
// steps_per_print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

/// What a DeepSpeed config asks a run to log.
struct DsLogSpec {
  bool comms = false, comms_all = true;  // comms_logger: enabled, prof_all
  bool comms_verbose = false;            // verbose: one line per call
  std::vector<std::string> comms_ops;    // prof_ops: names of collectives as DeepSpeed spells them
  std::int64_t wall_clock_every = 0;     // steps; 0: wall_clock_breakdown is off
  bool operator==(const DsLogSpec&) const = default;
};

}  // namespace shardmark
