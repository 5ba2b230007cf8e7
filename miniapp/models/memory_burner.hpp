// SPDX-License-Identifier: Apache-2.0
// A thread that keeps the memory of this rank's node busy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <core/plan/deck/perturb.hpp>

namespace shardmark {

/// A thread that writes to memory past the caches while the rank computes. It runs on the cores of
/// the rank, and uses neither MPI nor Kokkos.
class MemoryBurner {
 public:
  /// The size of its memory, which is allocated and touched at once. No ledger counts it.
  static constexpr std::int64_t buffer_bytes = std::int64_t{32} << 20;

  /// Starts the thread, which waits. Throws std::system_error.
  MemoryBurner();
  ~MemoryBurner();
  MemoryBurner(const MemoryBurner&) = delete;
  MemoryBurner& operator=(const MemoryBurner&) = delete;

  /// From now on, until the next call.
  void burn(const MemoryTraffic& traffic);
  /// The bytes written so far.
  std::int64_t written_bytes() const { return written_bytes_.load(std::memory_order_relaxed); }

 private:
  void run();
  void write_some();

  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::atomic<std::int64_t> written_bytes_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  MemoryTraffic traffic_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace shardmark
