// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>

#include <core/clock.hpp>
#include <core/cpu_set.hpp>
#include <core/numeric/stream_store.hpp>
#include <miniapp/models/memory_burner.hpp>

namespace shardmark {
namespace {

constexpr std::size_t burst_bytes = std::size_t{256} << 10;
// A rate and a part of the time hold within each period. It is long for a scheduler and short for a
// step.
constexpr std::int64_t period_ns = 2'000'000;

}  // namespace

MemoryBurner::MemoryBurner()
    : buffer_(static_cast<std::size_t>(buffer_bytes)), thread_([this] { run(); }) {}

MemoryBurner::~MemoryBurner() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MemoryBurner::burn(const MemoryTraffic& traffic) {
  {
    const std::lock_guard lock(mutex_);
    traffic_ = traffic;
  }
  changed_.notify_one();
}

void MemoryBurner::write_some() {
  static constexpr std::array<std::byte, 4096> source{};
  for (std::size_t i = 0; i < burst_bytes; i += source.size())
    kernel::stream_copy(buffer_.data() + at_ + i, source.data(), source.size());
  kernel::finish_streams();
  at_ = (at_ + burst_bytes) % buffer_.size();
  written_bytes_.fetch_add(static_cast<std::int64_t>(burst_bytes), std::memory_order_relaxed);
}

void MemoryBurner::run() {
  run_on_all_cores_of_process();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || traffic_.active(); });
    if (ends_) return;
    const MemoryTraffic now = traffic_;
    lock.unlock();
    const std::int64_t start_ns = monotonic_ns();
    std::int64_t next_ns = start_ns + period_ns;
    if (now.share > 0) {
      const auto busy_ns = static_cast<std::int64_t>(now.share * period_ns);
      while (monotonic_ns() - start_ns < busy_ns) write_some();
    } else {
      // A rate below one burst per period makes the period longer.
      double bytes = 0;
      const double wanted = now.gbps * period_ns;
      do {
        write_some();
        bytes += burst_bytes;
      } while (bytes < wanted && monotonic_ns() < next_ns);
      next_ns = start_ns + static_cast<std::int64_t>(
                               std::min(bytes / now.gbps, 1000.0 * static_cast<double>(period_ns)));
    }
    lock.lock();
    // The wait ends early when the traffic is switched off, so that the next step begins without
    // it.
    const std::int64_t left_ns = next_ns - monotonic_ns();
    if (left_ns > 0)
      changed_.wait_for(lock, std::chrono::nanoseconds(left_ns),
                        [this] { return ends_ || !traffic_.active(); });
  }
}

}  // namespace shardmark
