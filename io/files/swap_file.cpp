// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <io/files/durable_file.hpp>
#include <io/files/swap_file.hpp>

namespace shardmark {
namespace {

constexpr std::string_view swap_remedy = "free the space, or give another nvme_path";

struct Alignment {
  std::int64_t memory = page_bytes, place = page_bytes;
};

Alignment alignment_of([[maybe_unused]] int fd) {
  Alignment a;
#ifdef STATX_DIOALIGN
  struct statx x {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) == 0 &&
      (x.stx_mask & STATX_DIOALIGN) != 0 && x.stx_dio_offset_align > 0)
    a = {x.stx_dio_mem_align, x.stx_dio_offset_align};
#endif
  return a;
}

}  // namespace

std::int64_t free_disk_bytes(const std::string& folder) {
  struct statvfs disk {};
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0)
    fail_io(folder, "cannot be used", std::strerror(errno), "create the folder, or mount the disk");
  if (!S_ISDIR(about.st_mode))
    fail_io(folder, "cannot be used", "it is not a folder", "give a folder on the disk");
  if (::statvfs(folder.c_str(), &disk) != 0)
    fail_io(folder, "its free space cannot be determined", std::strerror(errno), swap_remedy);
  return static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
}

SwapFile::SwapFile(std::string folder, std::int64_t bytes)
    : folder_(std::move(folder)), bytes_(bytes), buffered_(open_unnamed()) {
  int error = ::posix_fallocate(buffered_.get(), 0, std::max<std::int64_t>(bytes, 1));
  if (error == EOPNOTSUPP || error == EINVAL) error = 0;  // a full disk is then noticed later
  if (error == 0 && ::ftruncate(buffered_.get(), bytes) != 0) error = errno;
  if (error != 0)
    fail_io(folder_, fmt::format("a file of {} bytes cannot be created", bytes),
            std::strerror(error), swap_remedy);
  open_direct();
}

OwnedFd SwapFile::open_unnamed() const {
  OwnedFd fd = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    fail_io(folder_, "no file can be created in it", std::strerror(errno), swap_remedy);
  std::string name = folder_ + "/.shardmark-swap-XXXXXX";
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (!fd) fail_io(folder_, "no file can be created in it", std::strerror(errno), swap_remedy);
  ::unlink(name.c_str());
  return fd;
}

void SwapFile::open_direct() {
  const Alignment alignment = alignment_of(buffered_.get());
  if (bytes_ % alignment.place != 0) return;
  // Opened through its descriptor, because the file has no other name.
  direct_ = ::open(fmt::format("/proc/self/fd/{}", buffered_.get()).c_str(),
                   O_RDWR | O_CLOEXEC | O_DIRECT);
  memory_alignment_ = std::max<std::int64_t>(1, alignment.memory);
}

template<class Byte, class Call>
void SwapFile::transfer(std::int64_t at, std::int64_t bytes, Byte* memory, std::int64_t step,
                        const Bounce& bounce, Call call, const char* what) const {
  const bool fits = !direct_ || reinterpret_cast<std::uintptr_t>(memory) %
                                        static_cast<std::uintptr_t>(memory_alignment_) ==
                                    0;
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t most = fits ? step : Bounce::bytes;
    const auto n = static_cast<std::size_t>(std::min(most, bytes - done));
    const ssize_t moved = call(memory + done, fits ? nullptr : bounce.data(), n, at + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0)
      fail_io(folder_, fmt::format("{} bytes cannot be {}", bytes, what),
              moved < 0 ? std::strerror(errno) : "the file ends", swap_remedy);
    done += moved;
  }
}

void SwapFile::read(std::int64_t at, std::int64_t bytes, std::byte* to, std::int64_t step,
                    const Bounce& bounce) const {
  const int fd = (direct_ ? direct_ : buffered_).get();
  transfer(
      at, bytes, to, step, bounce,
      [fd](std::byte* memory, std::byte* through, std::size_t n, std::int64_t place) {
        const ssize_t moved = ::pread(fd, through != nullptr ? through : memory, n, place);
        if (through != nullptr && moved > 0)
          std::memcpy(memory, through, static_cast<std::size_t>(moved));
        return moved;
      },
      "read");
}

void SwapFile::write(std::int64_t at, std::int64_t bytes, const std::byte* from, std::int64_t step,
                     const Bounce& bounce) const {
  const int fd = (direct_ ? direct_ : buffered_).get();
  transfer(
      at, bytes, from, step, bounce,
      [fd](const std::byte* memory, std::byte* through, std::size_t n, std::int64_t place) {
        if (through != nullptr) std::memcpy(through, memory, n);
        return ::pwrite(fd, through != nullptr ? through : memory, n, place);
      },
      "written");
}

std::int64_t SwapFile::bytes() const {
  struct stat about {};
  if (::fstat(buffered_.get(), &about) != 0)
    fail_io(folder_, "the size of a file cannot be determined", std::strerror(errno), swap_remedy);
  return about.st_size;
}

std::byte* SwapFile::map() const {
  if (mapped_) return mapped_.get();
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(bytes_, 1));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffered_.get(), 0);
  if (memory == MAP_FAILED)
    fail_io(folder_, "a file cannot be mapped", std::strerror(errno), swap_remedy);
  mapped_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
  return mapped_.get();
}

void SwapFile::Unmap::operator()(std::byte* memory) const {
  (void)::munmap(memory, bytes);
}

}  // namespace shardmark
