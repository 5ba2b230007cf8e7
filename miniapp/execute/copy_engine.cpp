// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>

#include <core/clock.hpp>
#include <core/memory/buffer.hpp>
#include <miniapp/execute/copy_engine.hpp>

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

}  // namespace

Carried CopyEngine::start(Direction direction, std::int64_t bytes, void* to, const void* from) {
  const std::int64_t called_ns = monotonic_ns();
  if (direction == Direction::device_to_host)
    copy<HostMemory, DeviceMemory>(space_, bytes, to, from);
  else
    copy<DeviceMemory, HostMemory>(space_, bytes, to, from);
  fence(space_, "shardmark::copy");
  const auto d = static_cast<std::size_t>(direction);
  const std::int64_t moved_ns = monotonic_ns();
  const std::int64_t begin_ns = std::max(called_ns, free_ns_);
  std::int64_t end_ns = moved_ns;
  if (gb_per_s_)
    end_ns = std::max(end_ns, begin_ns + static_cast<std::int64_t>(
                                             std::ceil(static_cast<double>(bytes) / *gb_per_s_)));
  free_ns_ = end_ns;
  LinkTimes& t = at(direction);
  ++t.copies;
  t.bytes += bytes;
  t.busy_ns += end_ns - begin_ns;
  t.exposed_ns += moved_ns - called_ns;
  ++carried_[d].copies;
  carried_[d].bytes += bytes;
  return {begin_ns, end_ns};
}

CopyLane::Number CopyEngine::start_on_lane(Direction direction, std::int64_t bytes, void* to,
                                           const void* from) {
  LinkTraffic& carried = carried_[static_cast<std::size_t>(direction)];
  ++carried.copies;
  carried.bytes += bytes;
  return lane_->start(direction, bytes, to, from);
}

std::vector<Carried> CopyEngine::finish_lane() {
  const std::vector<CopyLane::Done> all = lane_->finish();
  const std::int64_t now_ns = monotonic_ns();
  std::vector<Carried> carried;
  for (const CopyLane::Done& done : all) {
    LinkTimes& t = at(done.direction);
    ++t.copies;
    t.bytes += done.bytes;
    t.busy_ns += done.began_ns_ago - done.ended_ns_ago;
    t.exposed_ns += done.exposed_ns;
    carried.push_back({now_ns - done.began_ns_ago, now_ns - done.ended_ns_ago});
  }
  return carried;
}

}  // namespace shardmark
