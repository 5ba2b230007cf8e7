// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/shm/shm_window.hpp>
#include <core/cache_line.hpp>
#include <core/system_pages.hpp>

namespace shardmark {
namespace {

std::int64_t round_up_to(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// The start of each rank's part of the window; the rank's buffers follow.
struct ShmWindow::Header {
  // A counter that other ranks poll shares its pair of lines with nothing that is written.
  struct alignas(apart_bytes) Counter {
    std::atomic<std::uint64_t> rounds{0};
  };
  Counter stages[3];
  alignas(apart_bytes) Notice notices[most_buffers];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "counters are shared between processes");

std::int64_t ShmWindow::rank_bytes() const {
  return round_up_to(static_cast<std::int64_t>(
                         sizeof(Header) + buffers_ * static_cast<std::uint64_t>(buffer_bytes_)),
                     system_page_bytes());
}

ShmWindow::Header& ShmWindow::header(int rank) const {
  return *std::launder(reinterpret_cast<Header*>(mapping_.base() + rank * rank_bytes()));
}

ShmWindow::ShmWindow(int rank, int size, std::int64_t buffer_bytes, int buffers)
    : rank_(rank),
      size_(size),
      buffers_(static_cast<std::uint64_t>(buffers)),
      // There is room for at least one element of each rank, whatever its type.
      buffer_bytes_(round_up_to(std::max(buffer_bytes, std::int64_t{8} * size), apart_bytes)) {}

std::unique_ptr<ShmWindow> ShmWindow::make(MPI_Comm comm, std::int64_t buffer_bytes,
                                           std::string& why_not, int buffers) {
  const int rank = comm_rank(comm), size = comm_size(comm);
  std::unique_ptr<ShmWindow> window(new ShmWindow(rank, size, buffer_bytes, buffers));
  window->mapping_ = SharedMapping::make(comm, size * window->rank_bytes(), why_not);
  if (!window->mapping_) return nullptr;
  // Each rank clears its own part, so that the pages are allocated near that rank.
  char* const mine = window->mapping_.base() + rank * window->rank_bytes();
  std::memset(mine, 0, static_cast<std::size_t>(window->rank_bytes()));
  new (mine) Header;
  SHARDMARK_MPI(MPI_Barrier(comm));
  return window;
}

void* ShmWindow::buffer(int rank, std::uint64_t round) const {
  return mapping_.base() + rank * rank_bytes() + sizeof(Header) +
         static_cast<std::int64_t>(round % buffers_) * buffer_bytes_;
}

ShmWindow::Notice& ShmWindow::notice(int rank, std::uint64_t round) const {
  return header(rank).notices[round % buffers_];
}

void ShmWindow::publish(Stage stage, std::uint64_t round) {
  header(rank_).stages[static_cast<int>(stage)].rounds.store(round, std::memory_order_release);
}

bool ShmWindow::reached(Stage stage, std::uint64_t round, int rank) const {
  return header(rank).stages[static_cast<int>(stage)].rounds.load(std::memory_order_acquire) >=
         round;
}

bool ShmWindow::all_reached(Stage stage, std::uint64_t round) const {
  for (int r = 0; r < size_; ++r)
    if (!reached(stage, round, r)) return false;
  return true;
}

bool ShmWindow::free_for(std::uint64_t round) const {
  return round < buffers_ || all_reached(Stage::read, round + 1 - buffers_);
}

std::uint64_t ShmWindow::reserve_rounds(std::uint64_t rounds) {
  return std::exchange(rounds_, rounds_ + rounds);
}

}  // namespace shardmark
