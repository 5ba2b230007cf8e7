// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime and NCCL, in host memory: streams are queues that advance when
// any of its functions is called, events are flags, collectives cross ranks over MPI. Just the
// functions that the NCCL back-end uses, with their real headers. Tests turn its knobs and look at
// what it was asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace shardmark::testing {

struct FakeCall {
  std::string name;
  const void* send;
  void* recv;
  std::size_t count;
  ncclDataType_t type;
  int op, root;  // -1: has none
};

struct FakeDevice {
  // Knobs.
  int busy_polls = 0;                      // "in progress" so often after each call of NCCL
  ncclResult_t async_error = ncclSuccess;  // what a communicator reports from now on
  std::string failing_call;                // this function returns ncclSystemError
  bool moves_data = true;                  // false: collectives are done at once, unlooked at
  // What was seen.
  std::vector<FakeCall> calls;
  int comms = 0, events = 0, streams = 0, allocations = 0;  // alive
  int finalized = 0, destroyed = 0, aborted = 0;
};

FakeDevice& fake();

/// Gives `stream` (null: the default one) a task. It is asked until it says that it is done.
void enqueue(cudaStream_t stream, std::function<bool()> task);
/// Lets all streams advance as far as they can.
void pump();

}  // namespace shardmark::testing
