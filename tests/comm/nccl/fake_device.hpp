// SPDX-License-Identifier: Apache-2.0
// A stand-in for the GPU's run time and NCCL in host memory: streams are queues that advance when
// any of its functions is called, events are flags, and collectives use MPI messages. It implements
// the functions that the NCCL back-end uses, with their real headers. Tests set its options and
// inspect its records of the calls.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <comm/nccl/nccl_library.hpp>

namespace shardmark::test {

struct FakeCall {
  std::string name;
  const void* send;
  void* recv;
  std::size_t count;
  ncclDataType_t type;
  int op, root;  // -1 if the call has none
};

struct FakeDevice {
  // Options.
  int busy_polls = 0;  // how often a poll after each NCCL call says "in progress"
  ncclResult_t async_error = ncclSuccess;  // the error that communicators report from now on
  std::string failing_call;                // this function returns ncclSystemError
  bool moves_data = true;                  // false: collectives are done at once and move nothing
  // Records.
  std::vector<FakeCall> calls;
  int comms = 0, events = 0, streams = 0, allocations = 0;  // how many exist
  int finalized = 0, destroyed = 0, aborted = 0;
};

FakeDevice& fake();

/// Queues a task on `stream` (null is the default stream). It is called until it returns true.
void enqueue(device::Stream stream, std::function<bool()> task);
/// Lets all streams advance as far as they can.
void pump();

}  // namespace shardmark::test
