// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's events on a stream whose clock advances by a millisecond per product: the
// stand-in for cuBLASLt calls `product_passed`. Reading an event that was not recorded is an error.
#include <core/gpu_runtime.hpp>
#include <tests/core/nn/gpu/stand_ins/fake_events.hpp>

namespace device = shardmark::device;

namespace {

constexpr int never = -1;
int now_ms = 0, alive = 0;

int& of(device::Event event) {
  return *reinterpret_cast<int*>(event);
}

}  // namespace

namespace shardmark::test::stand_in {

void product_passed() {
  ++now_ms;
}
int events_alive() {
  return alive;
}

}  // namespace shardmark::test::stand_in

extern "C" {

device::Status SHARDMARK_GPU(EventCreate)(device::Event* event) {
  *event = reinterpret_cast<device::Event>(new int(never));
  ++alive;
  return device::success;
}
device::Status SHARDMARK_GPU(EventDestroy)(device::Event event) {
  delete &of(event);
  --alive;
  return device::success;
}
device::Status SHARDMARK_GPU(EventRecord)(device::Event event, device::Stream) {
  of(event) = now_ms;
  return device::success;
}
device::Status SHARDMARK_GPU(EventSynchronize)(device::Event event) {
  return of(event) == never ? SHARDMARK_GPU(ErrorInvalidResourceHandle) : device::success;
}
device::Status SHARDMARK_GPU(EventElapsedTime)(float* ms, device::Event begin, device::Event end) {
  *ms = static_cast<float>(of(end) - of(begin));
  return device::success;
}

}  // extern "C"
