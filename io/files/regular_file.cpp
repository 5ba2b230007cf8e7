// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {

namespace {

// A regular file's descriptor and size; none and errno where it cannot be opened.
OpenFile open_if_regular(const std::string& path, std::string_view remedy) {
  // O_NONBLOCK: a pipe opens at once instead of waiting for its writer.
  OwnedFd fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (!fd) return {};
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) fail_io(path, "cannot be read", std::strerror(errno), remedy);
  if (!S_ISREG(about.st_mode)) fail_io(path, "cannot be read", "it is not a regular file", remedy);
  return {std::move(fd), about.st_size};
}

std::string read_all(const OpenFile& file, const std::string& path, std::int64_t max_bytes,
                     std::string_view remedy) {
  const auto too_large = [&] {
    fail_io(path, "cannot be read", fmt::format("it is larger than {} bytes", max_bytes), remedy);
  };
  if (file.bytes > max_bytes) too_large();
  std::string text;
  for (std::string piece(std::size_t{1} << 20, '\0');;) {
    const ssize_t n = ::read(file.fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "cannot be read", std::strerror(errno), remedy);
    if (n == 0) return text;
    if (static_cast<std::int64_t>(text.size()) + n > max_bytes) too_large();  // it grows
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

OpenFile open_regular_file(const std::string& path, std::string_view remedy) {
  OpenFile file = open_if_regular(path, remedy);
  if (!file.fd) fail_io(path, "cannot be read", std::strerror(errno), remedy);
  return file;
}

std::string read_regular_file(const std::string& path, std::int64_t max_bytes,
                              std::string_view remedy) {
  return read_all(open_regular_file(path, remedy), path, max_bytes, remedy);
}

std::optional<std::string> read_regular_file_if_there(const std::string& path,
                                                      std::int64_t max_bytes,
                                                      std::string_view remedy) {
  const OpenFile file = open_if_regular(path, remedy);
  if (file.fd) return read_all(file, path, max_bytes, remedy);
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  fail_io(path, "cannot be read", std::strerror(errno), remedy);
}

namespace {

// Pages that are on their way between lists of the kernel stay for a while.
constexpr double kept_part = 0.01;
constexpr std::int64_t window_bytes = std::int64_t{1} << 30;  // mapped at a time

// How many of the file's pages are in memory; -1 if the system does not say, as where a file system
// goes around the page cache and so maps no file.
std::int64_t cached_pages(int fd, std::int64_t bytes, std::int64_t page) {
  std::vector<unsigned char> resident;
  std::int64_t cached = 0;
  for (std::int64_t at = 0; at < bytes; at += window_bytes) {
    const auto length = static_cast<std::size_t>(std::min(window_bytes, bytes - at));
    void* map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, at);
    if (map == MAP_FAILED) return -1;
    resident.assign((length + static_cast<std::size_t>(page) - 1) / static_cast<std::size_t>(page),
                    0);
    const int status = ::mincore(map, length, resident.data());
    (void)::munmap(map, length);
    if (status != 0) return -1;
    cached += std::ranges::count_if(resident, [](unsigned char f) { return (f & 1U) != 0; });
  }
  return cached;
}

}  // namespace

std::string file_system_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  const std::string device = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
  // A line of proc_pid_mountinfo(5), ID PARENT MAJOR:MINOR …, has the kind behind " - ".
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, number;
    words >> id >> parent >> number;
    const std::size_t dash = line.find(" - ");
    if (number != device || dash == std::string::npos) continue;
    return line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
  }
  return "";
}

bool forget_cached(const std::string& path) {
  const OwnedFd fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return fd && ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0;
}

bool is_cached(const std::string& path) {
  const OwnedFd fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return false;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t cached = cached_pages(fd.get(), status.st_size, page) * page;
  return static_cast<double>(cached) >
         kept_part * static_cast<double>(status.st_size) + static_cast<double>(page);
}

}  // namespace shardmark
