// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include <tests/comm/nccl/fake_device.hpp>

namespace {

struct Stream {
  std::deque<std::function<bool()>> tasks;
};
struct Event {
  std::shared_ptr<bool> complete = std::make_shared<bool>(true);  // true until it is recorded
  std::shared_ptr<int> at_ms = std::make_shared<int>(0);
  bool timed = false;
};

int now_ms = 0;  // advances by 1 with each task

std::set<Stream*>& streams() {
  static Stream first;  // the default stream
  static std::set<Stream*> all{&first};
  return all;
}

Stream* stream_of(cudaStream_t stream) {
  static Stream* const first = *streams().begin();
  return stream == nullptr ? first : reinterpret_cast<Stream*>(stream);
}

Event* event_of(cudaEvent_t event) {
  return reinterpret_cast<Event*>(event);
}

bool advance(Stream& stream) {
  bool moved = false;
  while (!stream.tasks.empty() && stream.tasks.front()()) {
    stream.tasks.pop_front();
    ++now_ms;
    moved = true;
  }
  return moved;
}

}  // namespace

namespace shardmark::test {

FakeDevice& fake() {
  static FakeDevice device;
  return device;
}

void enqueue(cudaStream_t stream, std::function<bool()> task) {
  stream_of(stream)->tasks.push_back(std::move(task));
}

void pump() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream* stream : streams()) moved = advance(*stream) || moved;
  }
}

}  // namespace shardmark::test

using namespace shardmark::test;

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  auto* made = new Stream;
  streams().insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  ++fake().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  pump();
  streams().erase(stream_of(stream));
  delete stream_of(stream);
  --fake().streams;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto* made = new Event;
  made->timed = (flags & cudaEventDisableTiming) == 0;
  *event = reinterpret_cast<cudaEvent_t>(made);
  ++fake().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  --fake().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event_of(event)->complete = std::make_shared<bool>(false);
  event_of(event)->at_ms = std::make_shared<int>(0);
  enqueue(stream, [complete = event_of(event)->complete, at = event_of(event)->at_ms] {
    *at = now_ms;
    return *complete = true;
  });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  for (const cudaEvent_t e : {from, to}) {
    if (!event_of(e)->timed) return cudaErrorInvalidResourceHandle;
    if (!*event_of(e)->complete) return cudaErrorNotReady;
  }
  *ms = static_cast<float>(*event_of(to)->at_ms - *event_of(from)->at_ms);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  enqueue(stream, [complete = event_of(event)->complete] { return *complete; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  pump();
  return *event_of(event)->complete ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  ++fake().allocations;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  --fake().allocations;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enqueue(stream, [=] { return std::memcpy(to, from, bytes), true; });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (!stream_of(stream)->tasks.empty()) pump();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  pump();
  return stream_of(stream)->tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the stand-in";
}

}  // extern "C"
