// SPDX-License-Identifier: Apache-2.0
// The part of HDF5 that checkpoints need: files of one-dimensional contiguous datasets, either of
// one rank or shared by the ranks of a communicator. Every call is checked where it is made. A
// failure is an IoError that names the file, the dataset and HDF5's own reason. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include <core/plan/deck/types.hpp>

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

/// How a file is accessed. With a communicator its ranks share the file: creating the file,
/// creating datasets, transfers and closing are collective over it.
struct Hdf5Access {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<std::pair<std::string, std::string>> hints;  // MPI_Info hints of a shared file
  std::int64_t alignment_bytes = 1;  // of datasets that are at least this large
};

/// One open dataset of a file. It must not outlive the file.
class Hdf5Dataset {
 public:
  /// Writes or reads the elements [first, first + elems), at most 2 GiB. Throws IoError. For a
  /// shared file the calls are collective: all ranks call equally often, those without data with
  /// elems = 0.
  void write(std::int64_t first, std::int64_t elems, const void* data);
  void read(std::int64_t first, std::int64_t elems, void* data) const;

  std::int64_t elems() const { return elems_; }
  /// Returns where the first element lies in the file, in bytes, so that it can also be read
  /// without HDF5.
  std::int64_t first_byte() const;
  /// Returns whether the last transfer really was collective (H5Pget_mpio_actual_io_mode).
  bool last_was_collective() const;
  void close();

 private:
  friend class Hdf5File;
  void transfer(std::int64_t first, std::int64_t elems, void* data, bool writes) const;
  std::string place() const;

  Hdf5Id id_, space_, transfer_;
  std::string file_, name_;
  Dtype dtype_ = Dtype::fp32;
  std::int64_t elems_ = 0;
  bool shared_ = false;
};

/// One open HDF5 file, of this rank alone or shared by the ranks of a communicator.
class Hdf5File {
 public:
  /// Creates a file. Throws IoError, also if the file exists.
  static Hdf5File create(const std::string& path, const Hdf5Access& access);
  /// Opens a file for reading. Throws IoError.
  static Hdf5File open(const std::string& path);

  /// Creates a dataset of `elems` elements in total, on every rank of a shared file. Its content is
  /// undefined.
  Hdf5Dataset create_dataset(const std::string& name, Dtype dtype, std::int64_t elems) {
    return create_dataset(name, dtype, std::vector<std::int64_t>{elems});
  }
  /// The same for any shape, slowest dimension first. The caller fills the dataset from
  /// `first_byte` on, not with `write`.
  Hdf5Dataset create_dataset(const std::string& name, Dtype dtype,
                             const std::vector<std::int64_t>& shape);
  /// Throws IoError if the dataset is missing, or is not one-dimensional, contiguous and of
  /// `dtype`.
  Hdf5Dataset open_dataset(const std::string& name, Dtype dtype) const;
  void create_group(const std::string& name);
  /// Closes the file; its datasets must be closed. Throws IoError if HDF5 could not write what it
  /// had buffered.
  void close();

 private:
  Hdf5Id id_;
  std::string path_;
  bool shared_ = false;
};

/// Returns the version, for example "1.10.8".
std::string hdf5_version();

}  // namespace shardmark
