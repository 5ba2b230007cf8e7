// SPDX-License-Identifier: Apache-2.0
// A stream and events with owners. A lane of communication is one stream; events order it with the
// compute stream without a wait of the host.
#pragma once

#include <utility>

#include <cuda_runtime_api.h>

namespace shardmark {

/// A stream of the current device that does not wait for the default stream, of the highest
/// priority: a collective's few blocks should not queue behind a product's many.
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

/// An event, with time stamps only where they are asked for. Move-only.
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

  /// After what `stream` has been given so far. Throws CommError.
  void record(cudaStream_t stream);
  /// What `stream` is given from now on comes after the event. Throws CommError.
  void hold(cudaStream_t stream) const;
  /// Whether the event has come. Throws CommError, also of what failed on the device before it.
  bool come() const;
  /// Between two that have come, both with time stamps. Throws CommError.
  double ms_since(const CudaEvent& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace shardmark
