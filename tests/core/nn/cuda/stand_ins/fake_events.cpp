// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's events on a stream whose clock advances by a millisecond per product: the
// stand-in for cuBLASLt calls `product_passed`. Reading an event that was not recorded is an error.
#include <cuda_runtime_api.h>

#include <tests/core/nn/cuda/stand_ins/fake_events.hpp>

namespace {

constexpr int never = -1;
int now_ms = 0, alive = 0;

int& of(cudaEvent_t event) {
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

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new int(never));
  ++alive;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &of(event);
  --alive;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  of(event) = now_ms;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return of(event) == never ? cudaErrorInvalidResourceHandle : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = static_cast<float>(of(end) - of(begin));
  return cudaSuccess;
}

}  // extern "C"
