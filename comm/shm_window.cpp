// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <comm/clock.hpp>
#include <comm/mpi_check.hpp>
#include <comm/mpi_types.hpp>
#include <comm/shm_window.hpp>

namespace shardmark {
namespace {

// Two lines, since processors fetch them in pairs: a counter that one rank polls shares neither
// with what another writes.
constexpr std::int64_t apart_bytes = 128;
constexpr std::int64_t page_bytes = 4096;

std::int64_t round_up_to(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

class File {
 public:
  explicit File(int handle) : handle_(handle) {}
  ~File() {
    if (handle_ >= 0) close(handle_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return handle_; }

 private:
  int handle_;
};

// Whether all ranks say so.
bool agree(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm));
  return all == 1;
}

bool on_one_node(MPI_Comm comm, int size) {
  MPI_Comm shared = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared));
  const OwnedComm owner(shared);
  int here = 1;
  SHARDMARK_MPI(MPI_Comm_size(shared, &here));
  return agree(comm, here == size);
}

}  // namespace

// At the start of each rank's part; its buffers follow.
struct ShmWindow::Header {
  struct alignas(apart_bytes) Counter {
    std::atomic<std::uint64_t> rounds{0};
  };
  Counter stages[3];
  alignas(apart_bytes) std::uint64_t signatures[buffers] = {};
  std::uint64_t token = 0;  // rank 0's: which window this is
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "counters are shared between processes");

std::int64_t ShmWindow::rank_bytes() const {
  return round_up_to(static_cast<std::int64_t>(sizeof(Header)) + buffers * buffer_bytes_,
                     page_bytes);
}

ShmWindow::Header& ShmWindow::header(int rank) const {
  return *std::launder(reinterpret_cast<Header*>(base_ + rank * rank_bytes()));
}

ShmWindow::ShmWindow(int rank, int size, std::int64_t buffer_bytes)
    : rank_(rank), size_(size), buffer_bytes_(round_up_to(buffer_bytes, apart_bytes)) {}

ShmWindow::~ShmWindow() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes()));
}

bool ShmWindow::map(int file) {
  void* const at =
      mmap(nullptr, static_cast<std::size_t>(bytes()), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return false;
  base_ = static_cast<char*>(at);
  return true;
}

// By the rank itself, so that its part lies in memory near it.
void ShmWindow::touch_own_part() {
  char* const mine = base_ + rank_ * rank_bytes();
  std::memset(mine, 0, static_cast<std::size_t>(rank_bytes()));
  new (mine) Header;
}

// Rank 0: makes the file and says where the others find it.
ShmWindow::Place ShmWindow::create(int& file) {
  file = memfd_create("shardmark", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, bytes()) != 0 || !map(file)) return {};
  touch_own_part();
  header(0).token = static_cast<std::uint64_t>(monotonic_ns());
  return {getpid(), file, header(0).token};
}

// The others: the file of rank 0's process. In a container of its own a rank finds another process
// by that number, or itself: only a file with rank 0's token is the right one.
bool ShmWindow::attach(const Place& place) {
  if (place.file < 0) return false;
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  const File file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat about;
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_size != bytes() || !map(file.get()) || header(0).token != place.token)
    return false;
  touch_own_part();
  return true;
}

std::unique_ptr<ShmWindow> ShmWindow::make(MPI_Comm comm, std::int64_t buffer_bytes,
                                           std::string& why_not) {
  int rank = 0, size = 1;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &rank));
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  if (!on_one_node(comm, size)) {
    why_not = "the ranks do not share one node";
    return nullptr;
  }
  std::unique_ptr<ShmWindow> window(new ShmWindow(rank, size, buffer_bytes));
  int handle = -1;
  Place place{};
  if (rank == 0) place = window->create(handle);
  const File file(handle);  // open until all have found it
  SHARDMARK_MPI(MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, comm));
  if (agree(comm, rank == 0 ? place.file >= 0 : window->attach(place))) return window;
  why_not = "the ranks cannot map memory of one another (memfd_create, /proc)";
  return nullptr;
}

void* ShmWindow::buffer(int rank, std::uint64_t round) const {
  return base_ + rank * rank_bytes() + sizeof(Header) +
         static_cast<std::int64_t>(round % buffers) * buffer_bytes_;
}

std::uint64_t& ShmWindow::signature(int rank, std::uint64_t round) const {
  return header(rank).signatures[round % buffers];
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

std::uint64_t ShmWindow::take_rounds(std::uint64_t rounds) {
  return std::exchange(rounds_, rounds_ + rounds);
}

}  // namespace shardmark
