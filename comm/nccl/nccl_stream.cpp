// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_stream.hpp>

namespace shardmark {
namespace {

// A destructor has nobody to throw to.
void report(cudaError_t code, const char* call) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
}

// Whether a query says that its subject has come.
bool has_come(cudaError_t code) {
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or a later check of a launch would find it
    return false;
  }
  SHARDMARK_CUDA(code);
  return true;
}

}  // namespace

bool stream_is_idle(void* stream) {
  return has_come(cudaStreamQuery(static_cast<cudaStream_t>(stream)));
}

CudaStream::CudaStream() {
  int least = 0, greatest = 0;
  SHARDMARK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SHARDMARK_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}

CudaStream::~CudaStream() {
  report(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

CudaEvent::CudaEvent(Timing timing) {
  SHARDMARK_CUDA(cudaEventCreateWithFlags(
      &event_, timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) report(cudaEventDestroy(event_), "cudaEventDestroy");
}

void CudaEvent::record(cudaStream_t stream) {
  SHARDMARK_CUDA(cudaEventRecord(event_, stream));
}

void CudaEvent::hold(cudaStream_t stream) const {
  SHARDMARK_CUDA(cudaStreamWaitEvent(stream, event_, 0));
}

bool CudaEvent::come() const {
  return has_come(cudaEventQuery(event_));
}

double CudaEvent::ms_since(const CudaEvent& earlier) const {
  float ms = 0;
  SHARDMARK_CUDA(cudaEventElapsedTime(&ms, earlier.event_, event_));
  return static_cast<double>(ms);
}

}  // namespace shardmark
