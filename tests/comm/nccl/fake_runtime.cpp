// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include <tests/comm/nccl/fake_device.hpp>

namespace device = shardmark::device;

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

Stream* stream_of(device::Stream stream) {
  static Stream* const first = *streams().begin();
  return stream == nullptr ? first : reinterpret_cast<Stream*>(stream);
}

Event* event_of(device::Event event) {
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

void enqueue(device::Stream stream, std::function<bool()> task) {
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

device::Status SHARDMARK_GPU(DeviceGetStreamPriorityRange)(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return device::success;
}
device::Status SHARDMARK_GPU(StreamCreateWithPriority)(device::Stream* stream, unsigned, int) {
  auto* made = new Stream;
  streams().insert(made);
  *stream = reinterpret_cast<device::Stream>(made);
  ++fake().streams;
  return device::success;
}
device::Status SHARDMARK_GPU(StreamDestroy)(device::Stream stream) {
  pump();
  streams().erase(stream_of(stream));
  delete stream_of(stream);
  --fake().streams;
  return device::success;
}
device::Status SHARDMARK_GPU(EventCreateWithFlags)(device::Event* event, unsigned flags) {
  auto* made = new Event;
  made->timed = (flags & SHARDMARK_GPU(EventDisableTiming)) == 0;
  *event = reinterpret_cast<device::Event>(made);
  ++fake().events;
  return device::success;
}
device::Status SHARDMARK_GPU(EventDestroy)(device::Event event) {
  delete event_of(event);
  --fake().events;
  return device::success;
}
device::Status SHARDMARK_GPU(EventRecord)(device::Event event, device::Stream stream) {
  event_of(event)->complete = std::make_shared<bool>(false);
  event_of(event)->at_ms = std::make_shared<int>(0);
  enqueue(stream, [complete = event_of(event)->complete, at = event_of(event)->at_ms] {
    *at = now_ms;
    return *complete = true;
  });
  return device::success;
}
device::Status SHARDMARK_GPU(EventElapsedTime)(float* ms, device::Event from, device::Event to) {
  for (const device::Event e : {from, to}) {
    if (!event_of(e)->timed) return SHARDMARK_GPU(ErrorInvalidResourceHandle);
    if (!*event_of(e)->complete) return SHARDMARK_GPU(ErrorNotReady);
  }
  *ms = static_cast<float>(*event_of(to)->at_ms - *event_of(from)->at_ms);
  return device::success;
}
device::Status SHARDMARK_GPU(StreamWaitEvent)(device::Stream stream, device::Event event,
                                              unsigned) {
  enqueue(stream, [complete = event_of(event)->complete] { return *complete; });
  return device::success;
}
device::Status SHARDMARK_GPU(EventQuery)(device::Event event) {
  pump();
  return *event_of(event)->complete ? device::success : SHARDMARK_GPU(ErrorNotReady);
}
device::Status SHARDMARK_GPU(Malloc)(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  ++fake().allocations;
  return device::success;
}
device::Status SHARDMARK_GPU(Free)(void* data) {
  std::free(data);
  --fake().allocations;
  return device::success;
}
device::Status SHARDMARK_GPU(Memset)(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return device::success;
}
#if defined(__HIP_PLATFORM_AMD__)
device::Status hipHostMalloc(void** data, std::size_t bytes, unsigned) {
#else
device::Status cudaMallocHost(void** data, std::size_t bytes) {
#endif
  return SHARDMARK_GPU(Malloc)(data, bytes);
}
#if defined(__HIP_PLATFORM_AMD__)
device::Status hipHostFree(void* data) {
#else
device::Status cudaFreeHost(void* data) {
#endif
  return SHARDMARK_GPU(Free)(data);
}
device::Status SHARDMARK_GPU(MemcpyAsync)(void* to, const void* from, std::size_t bytes,
                                          SHARDMARK_GPU(MemcpyKind), device::Stream stream) {
  enqueue(stream, [=] { return std::memcpy(to, from, bytes), true; });
  return device::success;
}
device::Status SHARDMARK_GPU(StreamSynchronize)(device::Stream stream) {
  while (!stream_of(stream)->tasks.empty()) pump();
  return device::success;
}
device::Status SHARDMARK_GPU(StreamQuery)(device::Stream stream) {
  pump();
  return stream_of(stream)->tasks.empty() ? device::success : SHARDMARK_GPU(ErrorNotReady);
}
device::Status SHARDMARK_GPU(GetLastError)() {
  return device::success;
}
const char* SHARDMARK_GPU(GetErrorString)(device::Status) {
  return "an error of the stand-in";
}

}  // extern "C"
