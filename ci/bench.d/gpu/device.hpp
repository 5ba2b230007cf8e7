// SPDX-License-Identifier: Apache-2.0
// Device memory with values that neither overflow nor become denormal, and times by events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <core/nn/gpu/check.hpp>

namespace shardmark::bench {

/// Memory in which every 16-bit value is about 1/1024, in every type.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::int64_t bytes) {
    SHARDMARK_DEVICE(Malloc, &data_, static_cast<std::size_t>(bytes));
    SHARDMARK_DEVICE(Memset, data_, 0x3a, static_cast<std::size_t>(bytes));
  }
  ~DeviceBytes() { static_cast<void>(SHARDMARK_GPU(Free)(data_)); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Returns the median time of `work` on the default stream in milliseconds, after three warm-ups.
template<class Work>
double median_ms(int repeats, Work&& work) {
  device::Event begin = nullptr, end = nullptr;
  SHARDMARK_DEVICE(EventCreate, &begin);
  SHARDMARK_DEVICE(EventCreate, &end);
  for (int i = 0; i < 3; ++i) work();
  std::vector<float> times(static_cast<std::size_t>(repeats));
  for (float& ms : times) {
    SHARDMARK_DEVICE(EventRecord, begin, nullptr);
    work();
    SHARDMARK_DEVICE(EventRecord, end, nullptr);
    SHARDMARK_DEVICE(EventSynchronize, end);
    SHARDMARK_DEVICE(EventElapsedTime, &ms, begin, end);
  }
  SHARDMARK_DEVICE(EventDestroy, begin);
  SHARDMARK_DEVICE(EventDestroy, end);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return static_cast<double>(times[static_cast<std::size_t>(repeats / 2)]);
}

}  // namespace shardmark::bench
