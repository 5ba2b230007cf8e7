// SPDX-License-Identifier: Apache-2.0
// Owners of CUDA streams and events. Each communication lane is one stream; events order the lane
// and the compute stream without blocking the host.
#pragma once

#include <utility>

#include <cuda_runtime_api.h>

namespace shardmark {

/// A stream of the current device with the highest priority, independent of the default stream. The
/// priority lets the few blocks of a collective run before the many blocks of a matrix product.
class CudaStream {
 public:
  /// Throws CommError.
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A CUDA event, with time stamps only on request. Move-only.
class CudaEvent {
 public:
  enum class Timing : bool { no, yes };
  /// Throws CommError.
  explicit CudaEvent(Timing timing = Timing::no);
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent();

  /// Records the event after all work queued on `stream` so far. Throws CommError.
  void record(cudaStream_t stream);
  /// Makes later work on `stream` wait for the event; the host does not wait. Throws CommError.
  void make_wait(cudaStream_t stream) const;
  /// Whether the event has completed. Throws CommError, also for errors of earlier work on the
  /// device.
  bool complete() const;
  /// The milliseconds from `earlier` to this event; both must be complete and have time stamps.
  /// Throws CommError.
  double ms_since(const CudaEvent& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace shardmark
