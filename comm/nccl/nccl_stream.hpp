// SPDX-License-Identifier: Apache-2.0
// Owners of the GPU's streams and events. Each communication lane is one stream; events order the
// lane and the compute stream without blocking the host.
#pragma once

#include <utility>

#include <core/gpu_runtime.hpp>

namespace shardmark {

/// A stream of the current device with the highest priority, independent of the default stream. The
/// priority lets the few blocks of a collective run before the many blocks of a matrix product.
class DeviceStream {
 public:
  /// Throws CommError.
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  device::Stream get() const { return stream_; }

 private:
  device::Stream stream_ = nullptr;
};

/// An event, with time stamps only on request. Move-only.
class DeviceEvent {
 public:
  enum class Timing : bool { no, yes };
  /// Throws CommError.
  explicit DeviceEvent(Timing timing = Timing::no);
  DeviceEvent(DeviceEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~DeviceEvent();

  /// Records the event after all work queued on `stream` so far. Throws CommError.
  void record(device::Stream stream);
  /// Makes later work on `stream` wait for the event; the host does not wait. Throws CommError.
  void make_wait(device::Stream stream) const;
  /// Whether the event has completed. Throws CommError, also for errors of earlier work on the
  /// device.
  bool complete() const;
  /// The milliseconds from `earlier` to this event; both must be complete and have time stamps.
  /// Throws CommError.
  double ms_since(const DeviceEvent& earlier) const;

 private:
  device::Event event_ = nullptr;
};

}  // namespace shardmark
