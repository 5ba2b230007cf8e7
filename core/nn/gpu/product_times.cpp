// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/gpu/check.hpp>
#include <core/nn/gpu/product_times.hpp>

namespace shardmark::device {

ProductTimes::~ProductTimes() {
  for (const Pair& pair : pairs_)
    for (device::Event event : pair) static_cast<void>(SHARDMARK_GPU(EventDestroy)(event));
}

std::int64_t ProductTimes::elapsed_ns(const Pair& pair) {
  float ms = 0;
  SHARDMARK_DEVICE(EventSynchronize, pair[1]);
  SHARDMARK_DEVICE(EventElapsedTime, &ms, pair[0], pair[1]);
  return std::llround(static_cast<double>(ms) * 1e6);
}

void ProductTimes::begin(device::Stream stream) {
  if (pairs_.empty()) {
    pairs_.resize(most_in_flight);
    for (Pair& pair : pairs_)
      for (device::Event& event : pair) SHARDMARK_DEVICE(EventCreate, &event);
  }
  if (in_flight_ == most_in_flight) {
    sum_ns_ += elapsed_ns(pairs_[first_]);
    first_ = (first_ + 1) % most_in_flight;
    --in_flight_;
  }
  SHARDMARK_DEVICE(EventRecord, pairs_[(first_ + in_flight_) % most_in_flight][0], stream);
}

void ProductTimes::end(device::Stream stream) {
  SHARDMARK_DEVICE(EventRecord, pairs_[(first_ + in_flight_) % most_in_flight][1], stream);
  ++in_flight_;
}

std::int64_t ProductTimes::last_ns() {
  return in_flight_ == 0 ? 0 : elapsed_ns(pairs_[(first_ + in_flight_ - 1) % most_in_flight]);
}

std::int64_t ProductTimes::total_ns() {
  for (; in_flight_ > 0; --in_flight_, first_ = (first_ + 1) % most_in_flight)
    sum_ns_ += elapsed_ns(pairs_[first_]);
  return sum_ns_;
}

}  // namespace shardmark::device
