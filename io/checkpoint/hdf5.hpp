// SPDX-License-Identifier: Apache-2.0
// The part of HDF5 that checkpoints need: it lays out new files of contiguous datasets and reads
// elements of existing ones. HDF5 never writes to the disk: it makes a new file in memory
// (hdf5_storage.hpp), and the program writes these bytes and the elements itself. Every call is
// checked where it is made. A failure is an IoError that names the file, the dataset, the reason
// and a remedy. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deck/types.hpp>
#include <io/checkpoint/hdf5_storage.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {

/// An HDF5 identifier that is closed once. It is empty after a move.
class Hdf5Id {
 public:
  using Close = int (*)(std::int64_t);
  Hdf5Id() = default;
  Hdf5Id(std::int64_t id, Close closer) : id_(id), close_(closer) {}
  Hdf5Id(Hdf5Id&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(std::exchange(other.close_, nullptr)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Id();

  std::int64_t get() const { return id_; }
  /// Closes the identifier and empties it. Returns HDF5's result; negative is an error.
  int close();

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

/// One dataset of a file that is open for reading.
class Hdf5Dataset {
 public:
  /// Reads the elements [first, first + elems), at most 2 GiB. Throws IoError.
  void read(std::int64_t first, std::int64_t elems, void* data) const;
  std::int64_t elems() const { return elems_; }

 private:
  friend class Hdf5File;
  std::string place() const;

  std::shared_ptr<Hdf5Storage> storage_;
  Hdf5Id id_, space_;
  std::string file_, name_;
  Dtype dtype_ = Dtype::fp32;
  std::int64_t elems_ = 0;
};

/// A new file before its elements are written: HDF5's own bytes, and room for the elements.
struct Hdf5Image {
  std::int64_t bytes = 0;         // of the whole file
  std::vector<FilePiece> pieces;  // to be written first, because they may overlap the room
  std::shared_ptr<const Hdf5Storage> storage;  // which the pieces belong to
};

/// One open HDF5 file, of this rank alone or shared by the ranks of a communicator.
class Hdf5File {
 public:
  /// Creates a file in memory. Messages name it `path`. Datasets of at least `alignment_bytes`
  /// begin at a multiple of that. Throws IoError.
  static Hdf5File create(const std::string& path, std::int64_t alignment_bytes);
  /// Opens a file on the disk for reading. Throws IoError.
  static Hdf5File open(const std::string& path);

  /// Adds a dataset of any shape, slowest dimension first, to a new file. Returns where its
  /// elements begin in the file, in bytes; the caller writes them there. Throws IoError.
  std::int64_t create_dataset(const std::string& name, Dtype dtype,
                              const std::vector<std::int64_t>& shape);
  void create_group(const std::string& name);
  /// Completes a new file and returns its bytes. Throws IoError.
  Hdf5Image finish();

  /// Throws IoError if the dataset is missing, or is not one-dimensional, contiguous and of
  /// `dtype`.
  Hdf5Dataset open_dataset(const std::string& name, Dtype dtype) const;

 private:
  Hdf5File(std::string path, std::shared_ptr<Hdf5Storage> storage);

  std::shared_ptr<Hdf5Storage> storage_;  // above the identifier: it closes first
  std::string path_;
  Hdf5Id id_;
};

/// Returns the version, for example "1.10.8".
std::string hdf5_version();

}  // namespace shardmark
