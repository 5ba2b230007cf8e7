// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/output.hpp>

namespace shardmark {
namespace {

[[noreturn]] void fail(const std::string& path, std::string_view doing, const std::string& reason) {
  throw IoError(
      fmt::format("{}: {}: {}: free the space, change the permissions, or give another --out", path,
                  doing, reason));
}

// A file being written: closed and removed unless `finish` was reached.
class TempFile {
 public:
  explicit TempFile(std::string path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (fd_ < 0) fail(path_, "cannot be created", std::strerror(errno));
  }
  ~TempFile() {
    // Here on an error only, which is already on its way up; the file is worthless.
    if (fd_ >= 0) (void)::close(fd_);
    if (!finished_) (void)::unlink(path_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  void write(std::string_view content) {
    while (!content.empty()) {
      const ssize_t n = ::write(fd_, content.data(), content.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(path_, "cannot be written", std::strerror(n < 0 ? errno : ENOSPC));
      content.remove_prefix(static_cast<std::size_t>(n));
    }
    if (::fsync(fd_) != 0) fail(path_, "cannot be flushed to the disk", std::strerror(errno));
    const int status = ::close(fd_);
    fd_ = -1;
    if (status != 0) fail(path_, "cannot be closed", std::strerror(errno));
  }

  void rename_to(const std::string& target) {
    if (std::rename(path_.c_str(), target.c_str()) != 0)
      fail(target, "cannot be replaced", std::strerror(errno));
    finished_ = true;
  }

 private:
  std::string path_;
  int fd_;
  bool finished_ = false;
};

// Makes a rename in the folder last. Some network file systems cannot do this, and say EINVAL.
void flush_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened", std::strerror(errno));
  const int status = ::fsync(fd);
  const int error = errno;
  (void)::close(fd);  // nothing was written through it
  if (status != 0 && error != EINVAL)
    fail(path, "cannot be flushed to the disk", std::strerror(error));
}

std::string temp_name(const std::string& folder, std::string_view name) {
  return fmt::format("{}/.{}.{}.tmp", folder, name, ::getpid());
}

constexpr std::array<std::string_view, 3> our_files{report_file, page_file, losses_file};

}  // namespace

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  if (path_.empty()) throw IoError("--out: is empty: give a folder");
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  std::error_code unknown;
  if (!std::filesystem::is_directory(path_, unknown)) {
    const bool file = std::filesystem::exists(path_, unknown);
    fail(path_, "cannot be made",
         file || !error ? "a file of that name is there" : error.message());
  }
  for (const std::string_view name : our_files)
    if (const std::string file = path_ + "/" + std::string(name);
        std::filesystem::is_directory(file, error))
      fail(file, "cannot be replaced", "is a folder");
  constexpr std::size_t trial_bytes = 65536;  // about what a short run will write
  TempFile(temp_name(path_, "trial")).write(std::string(trial_bytes, ' '));
}

void OutputFolder::replace(const std::string& name, std::string_view content) const {
  if (std::find(our_files.begin(), our_files.end(), name) == our_files.end())
    throw std::logic_error(name + " is not a file of ours");
  TempFile file(temp_name(path_, name));
  file.write(content);
  file.rename_to(path_ + "/" + name);
  flush_folder(path_);
}

std::string losses_csv(std::span<const LossRow> rows) {
  std::string text = "step,loss,grad_norm,lr,loss_scale,skipped,seconds\n";
  for (const LossRow& r : rows)
    text += fmt::format("{},{},{},{},{},{},{}\n", r.step, r.loss, r.grad_norm, r.lr, r.loss_scale,
                        r.skipped ? 1 : 0, r.seconds);
  return text;
}

}  // namespace shardmark
