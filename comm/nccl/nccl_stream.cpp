// SPDX-License-Identifier: Apache-2.0
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_stream.hpp>

namespace shardmark {
namespace {

// Whether the result of a query means that its subject is complete.
bool is_complete(cudaError_t code) {
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // clears the code, or a later check would report it
    return false;
  }
  SHARDMARK_CUDA(code);
  return true;
}

}  // namespace

bool stream_is_idle(void* stream) {
  return is_complete(cudaStreamQuery(static_cast<cudaStream_t>(stream)));
}

CudaStream::CudaStream() {
  int least = 0, greatest = 0;
  SHARDMARK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SHARDMARK_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}

CudaStream::~CudaStream() {
  report_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

CudaEvent::CudaEvent(Timing timing) {
  SHARDMARK_CUDA(cudaEventCreateWithFlags(
      &event_, timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) report_cuda(cudaEventDestroy(event_), "cudaEventDestroy");
}

void CudaEvent::record(cudaStream_t stream) {
  SHARDMARK_CUDA(cudaEventRecord(event_, stream));
}

void CudaEvent::make_wait(cudaStream_t stream) const {
  SHARDMARK_CUDA(cudaStreamWaitEvent(stream, event_, 0));
}

bool CudaEvent::complete() const {
  return is_complete(cudaEventQuery(event_));
}

double CudaEvent::ms_since(const CudaEvent& earlier) const {
  float ms = 0;
  SHARDMARK_CUDA(cudaEventElapsedTime(&ms, earlier.event_, event_));
  return static_cast<double>(ms);
}

}  // namespace shardmark
