// SPDX-License-Identifier: Apache-2.0
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <comm/nccl/nccl_stream.hpp>

namespace shardmark {
namespace {

// Whether the result of a query means that its subject is complete.
bool is_complete(device::Status code) {
  if (code == SHARDMARK_GPU(ErrorNotReady)) {
    static_cast<void>(
        SHARDMARK_GPU(GetLastError)());  // clears the code, or a later check would report it
    return false;
  }
  check_runtime(code, "a query");
  return true;
}

}  // namespace

bool stream_is_idle(void* stream) {
  return is_complete(SHARDMARK_GPU(StreamQuery)(static_cast<device::Stream>(stream)));
}

DeviceStream::DeviceStream() {
  int least = 0, greatest = 0;
  SHARDMARK_RUNTIME(DeviceGetStreamPriorityRange, &least, &greatest);
  SHARDMARK_RUNTIME(StreamCreateWithPriority, &stream_, SHARDMARK_GPU(StreamNonBlocking), greatest);
}

DeviceStream::~DeviceStream() {
  SHARDMARK_REPORT(StreamDestroy, stream_);
}

DeviceEvent::DeviceEvent(Timing timing) {
  SHARDMARK_RUNTIME(
      EventCreateWithFlags, &event_,
      timing == Timing::yes ? SHARDMARK_GPU(EventDefault) : SHARDMARK_GPU(EventDisableTiming));
}

DeviceEvent::~DeviceEvent() {
  if (event_ != nullptr) SHARDMARK_REPORT(EventDestroy, event_);
}

void DeviceEvent::record(device::Stream stream) {
  SHARDMARK_RUNTIME(EventRecord, event_, stream);
}

void DeviceEvent::make_wait(device::Stream stream) const {
  SHARDMARK_RUNTIME(StreamWaitEvent, stream, event_, 0);
}

bool DeviceEvent::complete() const {
  return is_complete(SHARDMARK_GPU(EventQuery)(event_));
}

double DeviceEvent::ms_since(const DeviceEvent& earlier) const {
  float ms = 0;
  SHARDMARK_RUNTIME(EventElapsedTime, &ms, earlier.event_, event_);
  return static_cast<double>(ms);
}

}  // namespace shardmark
