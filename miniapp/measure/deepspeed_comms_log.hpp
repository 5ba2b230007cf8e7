// SPDX-License-Identifier: Apache-2.0
// The summary that DeepSpeed's comms_logger would print: collectives by operation and message size,
// with its columns and its arithmetic, and a further column with nccl-tests' bus bandwidth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <io/deck/deck_reader.hpp>

namespace shardmark {

/// Calls of one message size. DeepSpeed's message is the first tensor that a call is given, which
/// the rank sends: one shard of an all_gather, the whole array of a reduce_scatter.
struct CommsLogRow {
  std::int64_t message_bytes = 0, count = 0;
  double total_ms = 0;
  // Means of all but the lowest and highest tenth.
  double average_ms = 0;
  double tput_gbps = 0, busbw_gbps = 0;  // as DeepSpeed defines them: for a reduce_scatter n times
                                         // the true rate, for tput of an all_reduce twice
  double nccl_gb_s = 0;                  // nccl-tests' bus bandwidth, 1e9 bytes
};
/// The rows of one operation.
struct CommsLogOp {
  std::string name;               // DeepSpeed's: "all_gather_into_tensor"
  std::vector<CommsLogRow> rows;  // by message size
};

/// Operations in the order of their first call. The latency of a call is the time for which it
/// occupied its lane (lane_begins_ns). DeepSpeed's logger makes calls blocking; this one does not.
std::vector<CommsLogOp> comms_log(const std::vector<CollectiveRecord>& records, int world,
                                  const DsLogSpec& spec);

/// What `verbose` of the logger prints: one line per call, in the order in which calls ended.
std::string comms_calls_text(const std::vector<CollectiveRecord>& records, int world,
                             const DsLogSpec& spec);

/// DeepSpeed's name of a collective.
std::string deepspeed_name(Op op);

/// "678.86 MB", "6.0 MB", "0B": as DeepSpeed prints message sizes.
std::string message_size(std::int64_t bytes);

/// DeepSpeed's table, with one column more.
std::string comms_log_text(const std::vector<CommsLogOp>& log);

}  // namespace shardmark
