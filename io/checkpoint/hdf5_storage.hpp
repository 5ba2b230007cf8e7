// SPDX-License-Identifier: Apache-2.0
// A file driver of our own gives HDF5 the bytes of a file instead of the disk. HDF5 1.10 cannot
// release a file whose last bytes it could not write: it tries again when the process ends, and
// crashes. With this driver no close can fail, because a new file is memory, and errors of reading
// keep the system's own reason. Only io/checkpoint uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <io/files/regular_file.hpp>

namespace shardmark {

/// The bytes of one HDF5 file, which the driver reads and writes.
class Hdf5Storage {
 public:
  Hdf5Storage() = default;
  virtual ~Hdf5Storage() = default;
  Hdf5Storage(const Hdf5Storage&) = delete;
  Hdf5Storage& operator=(const Hdf5Storage&) = delete;

  /// Returns how many bytes can be read.
  virtual std::int64_t bytes() const = 0;
  /// Read or write bytes from byte `at` on. They return false if that failed; `failure()` says why.
  virtual bool read(std::int64_t at, std::span<std::byte> into) noexcept = 0;
  virtual bool write(std::int64_t at, std::span<const std::byte> from) noexcept = 0;

  /// The end of what HDF5 has allocated in the file, which is the size of the whole file.
  std::int64_t room_end = 0;

  /// Returns the system's reason of the last transfer that failed, or nothing if none failed.
  const std::string& failure() const { return failure_; }

 protected:
  std::string failure_;
};

/// A new file. Only the pages that HDF5 writes take memory, which are a few KiB of its own. The
/// datasets take none, because HDF5 only allocates room for them in the file.
class Hdf5Memory : public Hdf5Storage {
 public:
  using Page = std::vector<std::byte>;
  static constexpr std::int64_t page_size = 4096;

  std::int64_t bytes() const override { return end_; }
  bool read(std::int64_t at, std::span<std::byte> into) noexcept override;
  bool write(std::int64_t at, std::span<const std::byte> from) noexcept override;

  /// Returns what was written, by the first byte of each page. The bytes between pages are
  /// undefined.
  const std::map<std::int64_t, Page>& pages() const { return pages_; }

 private:
  std::map<std::int64_t, Page> pages_;
  std::int64_t end_ = 0;
};

/// An existing file, for reading.
class Hdf5Disk : public Hdf5Storage {
 public:
  /// Throws IoError if the file is missing, unreadable, or not a regular file.
  explicit Hdf5Disk(const std::string& path);

  std::int64_t bytes() const override { return file_.bytes; }
  bool read(std::int64_t at, std::span<std::byte> into) noexcept override;
  bool write(std::int64_t, std::span<const std::byte>) noexcept override { return false; }

 private:
  OpenFile file_;
};

/// Makes a file access property list of HDF5 use `storage`, which must outlive the file. Returns
/// false if HDF5 refused.
bool set_hdf5_storage(std::int64_t property_list, Hdf5Storage& storage);

}  // namespace shardmark
