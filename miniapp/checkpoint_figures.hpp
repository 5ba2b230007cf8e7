// SPDX-License-Identifier: Apache-2.0
// What a run's report says of its checkpoints.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// Bytes are of all ranks, seconds of the slowest.
struct CheckpointFigures {
  std::string resumed_from;  // empty: a fresh start
  std::int64_t first_step = 0, read_bytes = 0, files_opened = 0;
  double read_s = 0;
  std::int64_t written = 0, written_bytes = 0;
  double write_s = 0, blocked_s = 0;  // of all that were written; blocked: training stood still
};

}  // namespace shardmark
