// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <core/cpu_set.hpp>
#include <io/checkpoint/direct_file.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {

DirectFile::DirectFile(std::string path, std::string_view remedy)
    : path_(std::move(path)), remedy_(remedy) {
  buffered_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (!buffered_) fail_io(path_, "cannot be opened", std::strerror(errno), remedy_);
  direct_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT);
}

DirectFile::~DirectFile() {
  if (writer_.joinable()) writer_.join();
}

void DirectFile::put(std::int64_t at, std::span<const std::byte> bytes,
                     const std::string& what) const {
  const std::string place = path_ + ": " + what;
  if (direct_ && at % page_bytes == 0) {
    const std::size_t whole = bytes.size() / page_bytes * page_bytes;
    write_piece(direct_.get(), {at, bytes.first(whole)}, place, remedy_);
    at += static_cast<std::int64_t>(whole);
    bytes = bytes.subspan(whole);
  }
  write_piece(buffered_.get(), {at, bytes}, place, remedy_);
}

void DirectFile::write(std::int64_t at, std::int64_t bytes, std::string what) {
  wait();
  const std::span<const std::byte> piece(room(), static_cast<std::size_t>(bytes));
  writer_ = std::thread([this, at, piece, what = std::move(what)] {
    run_on_all_cores_of_process();
    try {
      put(at, piece, what);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
  filling_ ^= 1;
}

void DirectFile::copy(const FilePiece& piece, const std::string& what) {
  const auto all = static_cast<std::int64_t>(piece.bytes.size());
  for (std::int64_t done = 0; done < all; done += piece_bytes) {
    const std::int64_t n = std::min(piece_bytes, all - done);
    std::memcpy(room(), piece.bytes.data() + done, static_cast<std::size_t>(n));
    write(piece.at + done, n, what);
  }
}

void DirectFile::wait() {
  if (writer_.joinable()) writer_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void DirectFile::flush_and_close() {
  wait();
  if (::fsync(buffered_.get()) != 0)
    fail_io(path_, "cannot be flushed to the disk", std::strerror(errno), remedy_);
  if (direct_.close() != 0 || buffered_.close() != 0)
    fail_io(path_, "cannot be closed", std::strerror(errno), remedy_);
}

}  // namespace shardmark
