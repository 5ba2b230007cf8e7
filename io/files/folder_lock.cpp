// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/folder_lock.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {
namespace {

constexpr const char* lock_file = ".lock";

constexpr std::int64_t max_lock_bytes = 512;

}  // namespace

std::string lock_holder(const std::string& folder, std::string_view remedy) {
  const auto text = read_regular_file_if_there(folder + "/" + lock_file, max_lock_bytes, remedy);
  return text ? text->substr(0, text->find('\n')) : "";
}

FolderLock::FolderLock(const std::string& folder, std::string_view who, std::string_view key,
                       std::string_view remedy) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_io(folder, "cannot be created", error.message(), remedy);
  const std::string path = folder + "/" + lock_file;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd_ < 0) fail_io(path, "cannot be created", std::strerror(errno), remedy);
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        throw IoError(fmt::format("{}: {} writes here ({}): wait until it ends, or give another {}",
                                  folder, who, lock_holder(folder, remedy), key));
      fail_io(path, "cannot be locked", std::strerror(errno), remedy);
    }
    char host[256] = "";
    (void)::gethostname(host, sizeof host - 1);  // the name is only information for people
    const std::string owner = fmt::format("process {} on {}\n", ::getpid(), host);
    if (::ftruncate(fd_, 0) != 0 ||
        ::pwrite(fd_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size()))
      fail_io(path, "cannot be written", std::strerror(errno), remedy);
  } catch (...) {
    (void)::close(fd_);
    throw;
  }
}

FolderLock::~FolderLock() {
  (void)::close(fd_);
}

}  // namespace shardmark
