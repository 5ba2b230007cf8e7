// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {

void fail_io(const std::string& path, std::string_view what, const std::string& reason,
             std::string_view remedy) {
  throw IoError(fmt::format("{}: {}: {}: {}", path, what, reason, remedy));
}

TempFile::TempFile(std::string path, std::string_view remedy)
    : path_(std::move(path)),
      remedy_(remedy),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (!fd_) fail_io(path_, "cannot be created", std::strerror(errno), remedy_);
}

TempFile::~TempFile() {
  // Unfinished only when an exception is being thrown already. The file is worthless then.
  if (!finished_) (void)::unlink(path_.c_str());
}

void TempFile::append(std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd_.get(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_io(path_, "cannot be written", std::strerror(n < 0 ? errno : ENOSPC), remedy_);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

void TempFile::write(std::string_view content) {
  append(content);
  if (::fsync(fd_.get()) != 0)
    fail_io(path_, "cannot be flushed to the disk", std::strerror(errno), remedy_);
  if (fd_.close() != 0) fail_io(path_, "cannot be closed", std::strerror(errno), remedy_);
}

void TempFile::rename_to(const std::string& target) {
  if (std::rename(path_.c_str(), target.c_str()) != 0)
    fail_io(target, "cannot be replaced", std::strerror(errno), remedy_);
  finished_ = true;
}

std::string temp_name(const std::string& folder, std::string_view name) {
  return fmt::format("{}/.{}.{}.tmp", folder, name, ::getpid());
}

void replace_file(const std::string& folder, const std::string& name, std::string_view content,
                  std::string_view remedy) {
  TempFile file(temp_name(folder, name), remedy);
  file.write(content);
  file.rename_to(folder + "/" + name);
  flush_folder(folder, remedy);
}

void publish_file(const std::string& written, const std::string& path, std::string_view remedy) {
  if (std::rename(written.c_str(), path.c_str()) != 0)
    fail_io(path, "cannot be replaced", std::strerror(errno), remedy);
  const auto slash = path.rfind('/');
  flush_folder(slash == std::string::npos ? "." : path.substr(0, slash + 1), remedy);
}

void write_piece(int fd, const FilePiece& piece, const std::string& what, std::string_view remedy) {
  auto [at, bytes] = piece;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_io(what, "cannot be written", std::strerror(n < 0 ? errno : ENOSPC), remedy);
    at += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void create_file(const std::string& path, std::int64_t bytes, std::span<const FilePiece> pieces,
                 std::string_view remedy, bool made) {
  OwnedFd fd =
      ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (made ? 0 : O_CREAT | O_EXCL), 0644);
  if (!fd) fail_io(path, "cannot be created", std::strerror(errno), remedy);
  if (::ftruncate(fd.get(), bytes) != 0)
    fail_io(path, fmt::format("cannot get {} bytes", bytes), std::strerror(errno), remedy);
  if (bytes > 0 && ::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, bytes) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS)
    fail_io(path, fmt::format("{} bytes cannot be set aside", bytes), std::strerror(errno), remedy);
  for (const FilePiece& piece : pieces) write_piece(fd.get(), piece, path, remedy);
  if (fd.close() != 0) fail_io(path, "cannot be closed", std::strerror(errno), remedy);
}

void flush_folder(const std::string& path, std::string_view remedy) {
  const OwnedFd fd = ::open(path.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (!fd) fail_io(path, "cannot be opened", std::strerror(errno), remedy);
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    fail_io(path, "cannot be flushed to the disk", std::strerror(errno), remedy);
}

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
  if (!fd_) fail_io(path, "cannot be created", std::strerror(errno), remedy);
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      throw IoError(fmt::format("{}: {} writes here ({}): wait until it ends, or give another {}",
                                folder, who, lock_holder(folder, remedy), key));
    fail_io(path, "cannot be locked", std::strerror(errno), remedy);
  }
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);  // the name is only information for people
  const std::string owner = fmt::format("process {} on {}\n", ::getpid(), host);
  if (::ftruncate(fd_.get(), 0) != 0 ||
      ::pwrite(fd_.get(), owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size()))
    fail_io(path, "cannot be written", std::strerror(errno), remedy);
}

}  // namespace shardmark
