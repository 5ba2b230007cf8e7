// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>
#include <hdf5.h>

#include <core/error.hpp>
#include <io/checkpoint/hdf5.hpp>

namespace shardmark {
namespace {

// HDF5's messages, from the call that ShardMark made to the innermost reason.
struct Reasons {
  std::string outer, inner;
};

herr_t take_reason(unsigned n, const H5E_error2_t* error, void* into) {
  auto& reasons = *static_cast<Reasons*>(into);
  std::string text = error->desc != nullptr ? error->desc : "";
  std::replace(text.begin(), text.end(), '\n', ' ');
  (n == 0 ? reasons.outer : reasons.inner) = text;
  return 0;
}

std::string reason(const char* call) {
  Reasons r;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take_reason, &r) < 0) return call;
  const std::string_view name(call);
  return fmt::format("{}: {}{}{}", name.substr(0, name.find('(')), r.outer,
                     r.inner.empty() ? "" : ": ", r.inner);
}

// `id` is negative if the call failed.
template<class Id>
Id checked(Id id, const char* call, const std::string& place) {
  if (id < 0) throw IoError(fmt::format("{}: {}", place, reason(call)));
  return id;
}
#define SHARDMARK_HDF5(call, place) checked((call), #call, (place))

void be_quiet() {  // errors are exceptions here, not text on standard error
  static const bool once = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(once);
}

int close_type(std::int64_t id) {
  return H5Tclose(id);
}
int close_plist(std::int64_t id) {
  return H5Pclose(id);
}
int close_space(std::int64_t id) {
  return H5Sclose(id);
}
int close_dataset(std::int64_t id) {
  return H5Dclose(id);
}
int close_group(std::int64_t id) {
  return H5Gclose(id);
}
int close_file(std::int64_t id) {
  return H5Fclose(id);
}

Hdf5Id property_list(hid_t kind, const std::string& place) {
  return {SHARDMARK_HDF5(H5Pcreate(kind), place), close_plist};
}

// A 16-bit floating-point type from sign, exponent and mantissa. HDF5 1.10 has no name for one.
Hdf5Id half_type(std::size_t exponent_bits, std::size_t bias, const std::string& place) {
  const std::size_t mantissa_bits = 15 - exponent_bits;
  Hdf5Id type(SHARDMARK_HDF5(H5Tcopy(H5T_IEEE_F32LE), place), close_type);
  SHARDMARK_HDF5(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits),
                 place);
  SHARDMARK_HDF5(H5Tset_size(type.get(), 2), place);
  SHARDMARK_HDF5(H5Tset_ebias(type.get(), bias), place);
  return type;
}

Hdf5Id type_of(Dtype dtype, const std::string& place) {
  switch (dtype) {
    case Dtype::fp32: return {SHARDMARK_HDF5(H5Tcopy(H5T_IEEE_F32LE), place), close_type};
    case Dtype::bf16: return half_type(8, 127, place);
    case Dtype::fp16: return half_type(5, 15, place);
    case Dtype::int64: return {SHARDMARK_HDF5(H5Tcopy(H5T_STD_I64LE), place), close_type};
    default: break;
  }
  throw IoError(fmt::format("{}: no HDF5 type for {}", place, to_string(dtype)));
}

// An MPI_Info that is freed with its owner.
class Hints {
 public:
  Hints(const Hdf5Access& access, const std::string& place) {
    if (access.hints.empty()) return;
    bool good = MPI_Info_create(&info_) == MPI_SUCCESS;
    for (const auto& [key, value] : access.hints)
      good = good && MPI_Info_set(info_, key.c_str(), value.c_str()) == MPI_SUCCESS;
    if (!good)
      throw IoError(place + ": MPI does not accept checkpoint.hints: shorten or remove them");
  }
  ~Hints() {
    if (info_ != MPI_INFO_NULL) (void)MPI_Info_free(&info_);
  }
  Hints(const Hints&) = delete;
  Hints& operator=(const Hints&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

Hdf5Id file_access(const Hdf5Access& access, const std::string& path) {
  Hdf5Id list = property_list(H5P_FILE_ACCESS, path);
  SHARDMARK_HDF5(H5Pset_alignment(list.get(), static_cast<hsize_t>(access.alignment_bytes),
                                  static_cast<hsize_t>(access.alignment_bytes)),
                 path);
#if H5_VERSION_GE(1, 10, 7)
  // The folder has a lock of its own, and some parallel file systems cannot lock files.
  SHARDMARK_HDF5(H5Pset_file_locking(list.get(), 0, 1), path);
#endif
  if (access.comm == MPI_COMM_NULL) return list;
  const Hints hints(access, path);
  SHARDMARK_HDF5(H5Pset_fapl_mpio(list.get(), access.comm, hints.get()), path);
  return list;
}

}  // namespace

Hdf5Id::~Hdf5Id() {
  (void)close();
}  // reached only when an exception is being thrown already

int Hdf5Id::close() {
  if (id_ < 0) return 0;
  return std::exchange(close_, nullptr)(std::exchange(id_, -1));
}

std::string Hdf5Dataset::place() const {
  return file_ + ": dataset " + name_;
}

void Hdf5Dataset::transfer(std::int64_t first, std::int64_t elems, void* data, bool writes) const {
  const auto start = static_cast<hsize_t>(first), count = static_cast<hsize_t>(elems);
  const std::string where = place();
  const hsize_t one = std::max<hsize_t>(count, 1);
  const Hdf5Id memory(SHARDMARK_HDF5(H5Screate_simple(1, &one, nullptr), where), close_space);
  if (elems > 0) {
    SHARDMARK_HDF5(
        H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr), where);
  } else {
    SHARDMARK_HDF5(H5Sselect_none(space_.get()), where);
    SHARDMARK_HDF5(H5Sselect_none(memory.get()), where);
  }
  const Hdf5Id type = type_of(dtype_, where);
  if (writes)
    SHARDMARK_HDF5(
        H5Dwrite(id_.get(), type.get(), memory.get(), space_.get(), transfer_.get(), data), where);
  else
    SHARDMARK_HDF5(
        H5Dread(id_.get(), type.get(), memory.get(), space_.get(), transfer_.get(), data), where);
}

void Hdf5Dataset::write(std::int64_t first, std::int64_t elems, const void* data) {
  transfer(first, elems, const_cast<void*>(data), true);  // the data is only read
}

void Hdf5Dataset::read(std::int64_t first, std::int64_t elems, void* data) const {
  transfer(first, elems, data, false);
}

std::int64_t Hdf5Dataset::first_byte() const {
  const haddr_t at = H5Dget_offset(id_.get());
  if (at == HADDR_UNDEF) return elems_ == 0 ? 0 : throw IoError(place() + ": has no place in it");
  return static_cast<std::int64_t>(at);
}

bool Hdf5Dataset::last_was_collective() const {
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  SHARDMARK_HDF5(H5Pget_mpio_actual_io_mode(transfer_.get(), &mode), place());
  return mode == H5D_MPIO_CONTIGUOUS_COLLECTIVE;
}

void Hdf5Dataset::close() {
  SHARDMARK_HDF5(id_.close(), place());
}

Hdf5File Hdf5File::create(const std::string& path, const Hdf5Access& access) {
  be_quiet();
  Hdf5File file;
  file.path_ = path;
  file.shared_ = access.comm != MPI_COMM_NULL;
  const Hdf5Id list = file_access(access, path);
  file.id_ = {SHARDMARK_HDF5(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, list.get()), path),
              close_file};
  return file;
}

Hdf5File Hdf5File::open(const std::string& path) {
  be_quiet();
  Hdf5File file;
  file.path_ = path;
  const Hdf5Id list = file_access({}, path);
  file.id_ = {SHARDMARK_HDF5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, list.get()), path), close_file};
  return file;
}

Hdf5Dataset Hdf5File::create_dataset(const std::string& name, Dtype dtype,
                                     const std::vector<std::int64_t>& shape) {
  Hdf5Dataset set;
  set.file_ = path_, set.name_ = name, set.dtype_ = dtype;
  set.shared_ = shared_;
  const std::string where = set.place();
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  set.space_ = {SHARDMARK_HDF5(
                    H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), where),
                close_space};
  set.elems_ = SHARDMARK_HDF5(H5Sget_simple_extent_npoints(set.space_.get()), where);
  const Hdf5Id list = property_list(H5P_DATASET_CREATE, where);
  SHARDMARK_HDF5(H5Pset_layout(list.get(), H5D_CONTIGUOUS), where);
  // Every element will be written, so HDF5 need not fill the space first.
  SHARDMARK_HDF5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), where);
  SHARDMARK_HDF5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), where);
  const Hdf5Id type = type_of(dtype, where);
  set.id_ = {SHARDMARK_HDF5(H5Dcreate2(id_.get(), name.c_str(), type.get(), set.space_.get(),
                                       H5P_DEFAULT, list.get(), H5P_DEFAULT),
                            where),
             close_dataset};
  set.transfer_ = property_list(H5P_DATASET_XFER, where);
  if (shared_) SHARDMARK_HDF5(H5Pset_dxpl_mpio(set.transfer_.get(), H5FD_MPIO_COLLECTIVE), where);
  return set;
}

Hdf5Dataset Hdf5File::open_dataset(const std::string& name, Dtype dtype) const {
  Hdf5Dataset set;
  set.file_ = path_, set.name_ = name, set.dtype_ = dtype;
  const std::string where = set.place();
  set.id_ = {SHARDMARK_HDF5(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), where), close_dataset};
  set.space_ = {SHARDMARK_HDF5(H5Dget_space(set.id_.get()), where), close_space};
  set.transfer_ = property_list(H5P_DATASET_XFER, where);
  const Hdf5Id type(SHARDMARK_HDF5(H5Dget_type(set.id_.get()), where), close_type);
  const Hdf5Id list(SHARDMARK_HDF5(H5Dget_create_plist(set.id_.get()), where), close_plist);
  const bool as_due = H5Sget_simple_extent_ndims(set.space_.get()) == 1 &&
                      H5Pget_layout(list.get()) == H5D_CONTIGUOUS &&
                      H5Tequal(type.get(), type_of(dtype, where).get()) > 0;
  if (!as_due)
    throw IoError(fmt::format("{}: must be one-dimensional, contiguous and of type {}", where,
                              to_string(dtype)));
  set.elems_ = SHARDMARK_HDF5(H5Sget_simple_extent_npoints(set.space_.get()), where);
  return set;
}

void Hdf5File::create_group(const std::string& name) {
  Hdf5Id group(
      SHARDMARK_HDF5(H5Gcreate2(id_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     path_),
      close_group);
  SHARDMARK_HDF5(group.close(), path_);
}

void Hdf5File::close() {
  SHARDMARK_HDF5(id_.close(), path_);
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  SHARDMARK_HDF5(H5get_libversion(&major, &minor, &release), std::string("HDF5"));
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace shardmark
