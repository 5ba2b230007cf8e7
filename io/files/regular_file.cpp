// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {
namespace {

// Closes a file that was only read.
struct Closed {
  int fd;
  ~Closed() { (void)::close(fd); }
};

// A regular file's descriptor and size; -1 and errno where it cannot be opened.
OpenFile open_if_regular(const std::string& path, std::string_view remedy) {
  // O_NONBLOCK: a pipe opens at once instead of waiting for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return {};
  struct stat about {};
  const int status = ::fstat(fd, &about);
  const int error = errno;
  if (status == 0 && S_ISREG(about.st_mode)) return {fd, about.st_size};
  (void)::close(fd);
  fail_io(path, "cannot be read", status != 0 ? std::strerror(error) : "it is not a regular file",
          remedy);
}

std::string read_all(const OpenFile& file, const std::string& path, std::int64_t max_bytes,
                     std::string_view remedy) {
  const Closed closed{file.fd};
  const auto too_large = [&] {
    fail_io(path, "cannot be read", fmt::format("it is larger than {} bytes", max_bytes), remedy);
  };
  if (file.bytes > max_bytes) too_large();
  std::string text;
  for (std::string piece(std::size_t{1} << 20, '\0');;) {
    const ssize_t n = ::read(file.fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "cannot be read", std::strerror(errno), remedy);
    if (n == 0) return text;
    if (static_cast<std::int64_t>(text.size()) + n > max_bytes) too_large();  // it grows
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

OpenFile open_regular_file(const std::string& path, std::string_view remedy) {
  const OpenFile file = open_if_regular(path, remedy);
  if (file.fd < 0) fail_io(path, "cannot be read", std::strerror(errno), remedy);
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
  if (file.fd >= 0) return read_all(file, path, max_bytes, remedy);
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  fail_io(path, "cannot be read", std::strerror(errno), remedy);
}

}  // namespace shardmark
