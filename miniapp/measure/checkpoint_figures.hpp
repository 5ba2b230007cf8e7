// SPDX-License-Identifier: Apache-2.0
// What a run's report says of its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

/// Bytes are of all ranks, seconds of the slowest.
struct CheckpointFigures {
  std::string resumed_from;  // empty: a fresh start
  std::int64_t first_step = 0, read_bytes = 0, files_opened = 0;
  double read_s = 0;
  std::int64_t written = 0, written_bytes = 0;
  double write_s = 0;    // of all that were written: to the disk and published
  double blocked_s = 0;  // training stood still
  // The storage benchmark: every write and read on its own; cached: the page cache may have helped.
  std::vector<double> timed_write_s, timed_read_s;
  std::int64_t timed_bytes = 0;  // of states, in one checkpoint
  bool cached = false;
};

}  // namespace shardmark
