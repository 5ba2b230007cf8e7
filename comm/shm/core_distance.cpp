// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <thread>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/shm/core_distance.hpp>
#include <core/cache_line.hpp>
#include <core/clock.hpp>

namespace shardmark {
namespace {

// The fastest block counts: an interrupt or another program disturbs some of them.
constexpr std::uint64_t blocks = 20, exchanges = 10;  // exchanges per block
constexpr std::int64_t longest_wait_ns = 50'000'000;

}  // namespace

// What one rank counts up, and the other one reads.
struct alignas(apart_bytes) CoreDistance::Side {
  std::atomic<std::uint64_t> count{0};
};

CoreDistance::CoreDistance(MPI_Comm node) : rank_(comm_rank(node)), size_(comm_size(node)) {
  if (size_ < 2) return;
  std::string why_not;
  mapping_ = SharedMapping::make(node, size_ * static_cast<std::int64_t>(sizeof(Side)), why_not);
  if (mapping_) new (mapping_.base() + rank_ * static_cast<std::int64_t>(sizeof(Side))) Side;
  SHARDMARK_MPI(MPI_Barrier(node));
}

CoreDistance::Side& CoreDistance::side(int rank) const {
  return *std::launder(
      reinterpret_cast<Side*>(mapping_.base() + rank * static_cast<std::int64_t>(sizeof(Side))));
}

// Waits until the other rank has counted up to `count`. One that gave up has counted beyond it. It
// may be on the same core, and gets it after a while.
bool CoreDistance::counts_up_to(const Side& other, std::uint64_t count) {
  constexpr int spins = 4096;
  std::int64_t start_ns = 0;
  while (true) {
    for (int i = 0; i < spins; ++i)
      if (const std::uint64_t seen = other.count.load(std::memory_order_acquire); seen >= count)
        return seen == count;
    const std::int64_t now_ns = monotonic_ns();
    if (start_ns == 0) start_ns = now_ns;
    if (now_ns - start_ns > longest_wait_ns) return false;
    std::this_thread::yield();
  }
}

// Counts never go back, so that ranks of which one gave up agree again in the next measurement.
double CoreDistance::measure_s() {
  const int other = rank_ ^ 1;
  if (!mapping_ || other >= size_) return 0;
  const bool first = rank_ < other;
  Side &mine = side(rank_), &theirs = side(other);
  std::uint64_t count = blocks * exchanges * measured_++;
  const std::uint64_t end = count + blocks * exchanges;
  double shortest = std::numeric_limits<double>::infinity();
  bool met = true;
  for (std::uint64_t b = 0; b < blocks && met; ++b) {
    const std::int64_t start_ns = monotonic_ns();
    for (std::uint64_t i = 0; i < exchanges && met; ++i) {
      ++count;
      if (first) mine.count.store(count, std::memory_order_release);
      met = counts_up_to(theirs, count);
      if (!first) mine.count.store(count, std::memory_order_release);
    }
    const auto block_ns = static_cast<double>(monotonic_ns() - start_ns);
    shortest = std::min(shortest, block_ns / (2.0 * static_cast<double>(exchanges)));
  }
  mine.count.store(end, std::memory_order_release);
  return met ? shortest * 1e-9 : 0;
}

}  // namespace shardmark
