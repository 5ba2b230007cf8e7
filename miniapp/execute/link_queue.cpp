// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <thread>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <miniapp/execute/link_queue.hpp>

namespace shardmark {
namespace {

template<class Memory>
using Bytes = Kokkos::View<std::byte*, Memory, Kokkos::MemoryUnmanaged>;
template<class Memory>
using ConstBytes = Kokkos::View<const std::byte*, Memory, Kokkos::MemoryUnmanaged>;

template<class To, class From>
void copy(const Space& space, std::int64_t bytes, void* to, const void* from) {
  const auto size = static_cast<std::size_t>(bytes);
  Kokkos::deep_copy(space, Bytes<To>(static_cast<std::byte*>(to), size),
                    ConstBytes<From>(static_cast<const std::byte*>(from), size));
}

// While it waits for an emulated link, a rank leaves its core to others only if much is left: a
// sleep may last longer than it should. Collectives must advance meanwhile.
constexpr std::int64_t worth_a_sleep_ns = 1'000'000;

}  // namespace

LinkQueue::Started LinkQueue::start(Direction direction, std::int64_t bytes, void* to,
                                    const void* from) {
  LinkTraffic& carried = carried_[direction];
  ++carried.copies;
  carried.bytes += bytes;
  if (lane_) return {lane_->start(direction, bytes, to, from), {}};
  return copy_now(direction, bytes, to, from);
}

// The number of such a copy is the time at which it is done.
LinkQueue::Started LinkQueue::copy_now(Direction direction, std::int64_t bytes, void* to,
                                       const void* from) {
  const std::int64_t called_ns = monotonic_ns();
  if (direction == Direction::device_to_host)
    copy<HostMemory, DeviceMemory>(space_, bytes, to, from);
  else
    copy<DeviceMemory, HostMemory>(space_, bytes, to, from);
  fence(space_, "shardmark::copy");
  const std::int64_t moved_ns = monotonic_ns();
  const std::int64_t begin_ns = std::max(called_ns, free_ns_);
  std::int64_t end_ns = moved_ns;
  if (gb_per_s_)
    end_ns = std::max(end_ns, begin_ns + static_cast<std::int64_t>(
                                             std::ceil(static_cast<double>(bytes) / *gb_per_s_)));
  free_ns_ = end_ns;
  times_[direction].add_copy(bytes, end_ns - begin_ns, moved_ns - called_ns);
  return {static_cast<std::uint64_t>(end_ns), {begin_ns, end_ns}};
}

void LinkQueue::hold(std::uint64_t number, const std::function<void()>& progress) {
  if (lane_) return lane_->hold_compute(number);
  const auto done_ns = static_cast<std::int64_t>(number);
  for (std::int64_t now = monotonic_ns(); now < done_ns; now = monotonic_ns()) {
    progress();
    if (done_ns - now > worth_a_sleep_ns)
      std::this_thread::sleep_for(std::chrono::nanoseconds(worth_a_sleep_ns / 2));
  }
}

std::vector<Carried> LinkQueue::finish() {
  std::vector<Carried> carried;
  if (!lane_) return carried;
  const std::vector<CopyLane::Done> all = lane_->finish();
  const std::int64_t now_ns = monotonic_ns();
  for (const CopyLane::Done& done : all) {
    times_[done.direction].add_copy(done.bytes, done.began_ns_ago - done.ended_ns_ago,
                                    done.exposed_ns);
    carried.push_back({now_ns - done.began_ns_ago, now_ns - done.ended_ns_ago});
  }
  return carried;
}

}  // namespace shardmark
