// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <io/checkpoint/direct_file.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {

DirectFile::DirectFile(std::string path) : path_(std::move(path)) {
  buffered_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (buffered_ >= 0) {
    direct_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT);
    return;
  }
  fail_io(path_, "cannot be opened", std::strerror(errno), checkpoint_remedy);
}

DirectFile::~DirectFile() {
  if (writer_.joinable()) writer_.join();
  // Either the data was flushed through another descriptor, or an exception is being thrown
  // already.
  if (direct_ >= 0) (void)::close(direct_);
  (void)::close(buffered_);
}

void DirectFile::put(std::int64_t at, std::span<const std::byte> bytes,
                     const std::string& what) const {
  while (!bytes.empty()) {
    const auto whole = bytes.size() / page_bytes * page_bytes;
    const bool direct = direct_ >= 0 && at % page_bytes == 0 && whole > 0;
    const ssize_t n =
        ::pwrite(direct ? direct_ : buffered_, bytes.data(), direct ? whole : bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail_io(path_ + ": " + what, "cannot be written", std::strerror(n < 0 ? errno : ENOSPC),
              checkpoint_remedy);
    at += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void DirectFile::write(std::int64_t at, std::int64_t bytes, std::string what) {
  finish();
  const std::span<const std::byte> piece(room(), static_cast<std::size_t>(bytes));
  writer_ = std::thread([this, at, piece, what = std::move(what)] {
    try {
      put(at, piece, what);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
  filling_ ^= 1;
}

void DirectFile::finish() {
  if (writer_.joinable()) writer_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace shardmark
