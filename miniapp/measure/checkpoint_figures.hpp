// SPDX-License-Identifier: Apache-2.0
// What the report of a run says about its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

/// Bytes count all ranks; seconds are those of the slowest rank.
struct CheckpointFigures {
  std::string resumed_from;  // empty if the run did not resume
  std::int64_t first_step = 0, read_bytes = 0, files_opened = 0;
  double read_s = 0;
  std::string newest;  // the last one that was written, which stays; empty: none
  std::int64_t written = 0, written_bytes = 0;
  double write_s = 0;    // of all that were written, until they were published
  double blocked_s = 0;  // of these, training waited
  // Of the storage benchmark: each write and each read, and what each rank took for its own part of
  // all of them. `cached`: the page cache may have served reads.
  std::vector<double> timed_write_s, timed_read_s;
  std::vector<double> rank_write_s, rank_read_s;
  std::string file_system;       // below the folder, as rank 0 sees it; empty: not known
  std::int64_t timed_bytes = 0;  // of states, in one checkpoint
  bool cached = false;
  std::int64_t node_memory_bytes = 0;  // the most of all nodes; 0: not known
};

}  // namespace shardmark
