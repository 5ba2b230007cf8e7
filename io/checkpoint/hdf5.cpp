// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>
#include <hdf5.h>

#include <core/error.hpp>
#include <io/checkpoint/hdf5.hpp>

namespace shardmark {
namespace {

constexpr const char* read_remedy = "give another checkpoint as checkpoint.resume";

// Why a call failed: the system's reason where a transfer failed, else what it means for the file.
// HDF5's own account names its functions and addresses, which help nobody who runs a benchmark.
[[noreturn]] void fail(const std::string& place, const Hdf5Storage* storage) {
  if (storage != nullptr && !storage->failure().empty())
    fail_io(place, "cannot be read", storage->failure(), read_remedy);
  fail_io(place, "cannot be read", "it is missing, damaged, or not of HDF5's format", read_remedy);
}
[[noreturn]] void fail_to_make(const std::string& place) {
  throw IoError(place +
                ": HDF5 cannot make it: the node is out of memory: free memory, or give a " +
                "smaller model");
}

// `id` is negative if the call failed.
template<class Id>
Id checked(Id id, const std::string& place, const Hdf5Storage* storage) {
  if (id < 0) fail(place, storage);
  return id;
}
template<class Id>
Id made(Id id, const std::string& place) {
  if (id < 0) fail_to_make(place);
  return id;
}

void be_quiet() {  // errors are exceptions here, not text on standard error
  static const bool once = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(once);
}

Hdf5Id property_list(hid_t kind, const std::string& place) {
  return {made(H5Pcreate(kind), place), H5Pclose};
}

// A 16-bit floating-point type from sign, exponent and mantissa. HDF5 1.10 has no name for one.
Hdf5Id half_type(std::size_t exponent_bits, std::size_t bias, const std::string& place) {
  const std::size_t mantissa_bits = 15 - exponent_bits;
  Hdf5Id type(made(H5Tcopy(H5T_IEEE_F32LE), place), H5Tclose);
  made(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), place);
  made(H5Tset_size(type.get(), 2), place);
  made(H5Tset_ebias(type.get(), bias), place);
  return type;
}

Hdf5Id type_of(Dtype dtype, const std::string& place) {
  switch (dtype) {
    case Dtype::fp32: return {made(H5Tcopy(H5T_IEEE_F32LE), place), H5Tclose};
    case Dtype::bf16: return half_type(8, 127, place);
    case Dtype::fp16: return half_type(5, 15, place);
    case Dtype::int64: return {made(H5Tcopy(H5T_STD_I64LE), place), H5Tclose};
    default: break;
  }
  throw IoError(fmt::format("{}: no HDF5 type for {}", place, to_string(dtype)));
}

Hdf5Id file_access(Hdf5Storage& storage, std::int64_t alignment_bytes, const std::string& path) {
  Hdf5Id list = property_list(H5P_FILE_ACCESS, path);
  const auto alignment = static_cast<hsize_t>(alignment_bytes);
  made(H5Pset_alignment(list.get(), alignment, alignment), path);
  if (!set_hdf5_storage(list.get(), storage)) fail_to_make(path);
  return list;
}

}  // namespace

Hdf5Id::~Hdf5Id() {
  (void)close();
}  // of what was only read, or on an error, which is already on its way up

int Hdf5Id::close() {
  if (id_ < 0) return 0;
  return std::exchange(close_, nullptr)(std::exchange(id_, -1));
}

std::string Hdf5Dataset::place() const {
  return file_ + ": dataset " + name_;
}

void Hdf5Dataset::read(std::int64_t first, std::int64_t elems, void* data) const {
  if (elems == 0) return;
  const auto start = static_cast<hsize_t>(first), count = static_cast<hsize_t>(elems);
  const std::string where = place();
  const Hdf5Id memory(made(H5Screate_simple(1, &count, nullptr), where), H5Sclose);
  checked(H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr),
          where, storage_.get());
  const Hdf5Id type = type_of(dtype_, where);
  checked(H5Dread(id_.get(), type.get(), memory.get(), space_.get(), H5P_DEFAULT, data), where,
          storage_.get());
}

Hdf5File::Hdf5File(std::string path, std::shared_ptr<Hdf5Storage> storage)
    : storage_(std::move(storage)), path_(std::move(path)) {}

Hdf5File Hdf5File::create(const std::string& path, std::int64_t alignment_bytes) {
  be_quiet();
  Hdf5File file(path, std::make_shared<Hdf5Memory>());
  const Hdf5Id list = file_access(*file.storage_, alignment_bytes, path);
  file.id_ = {made(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, list.get()), path), H5Fclose};
  return file;
}

Hdf5File Hdf5File::open(const std::string& path) {
  be_quiet();
  Hdf5File file(path, std::make_shared<Hdf5Disk>(path));
  const Hdf5Id list = file_access(*file.storage_, 1, path);
  file.id_ = {checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, list.get()), path, file.storage_.get()),
              H5Fclose};
  return file;
}

std::int64_t Hdf5File::create_dataset(const std::string& name, Dtype dtype,
                                      const std::vector<std::int64_t>& shape) {
  const std::string where = path_ + ": dataset " + name;
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const Hdf5Id space(
      made(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), where),
      H5Sclose);
  const Hdf5Id list = property_list(H5P_DATASET_CREATE, where);
  made(H5Pset_layout(list.get(), H5D_CONTIGUOUS), where);
  // Every element is written, so its place is not filled first.
  made(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), where);
  made(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), where);
  const Hdf5Id type = type_of(dtype, where);
  Hdf5Id set(made(H5Dcreate2(id_.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                             list.get(), H5P_DEFAULT),
                  where),
             H5Dclose);
  const haddr_t at = H5Dget_offset(set.get());
  if (at == HADDR_UNDEF && H5Sget_simple_extent_npoints(space.get()) != 0) fail_to_make(where);
  made(set.close(), where);
  return at == HADDR_UNDEF ? 0 : static_cast<std::int64_t>(at);
}

Hdf5Dataset Hdf5File::open_dataset(const std::string& name, Dtype dtype) const {
  Hdf5Dataset set;
  set.storage_ = storage_;
  set.file_ = path_, set.name_ = name, set.dtype_ = dtype;
  const std::string where = set.place();
  const auto good = [&](auto id) { return checked(id, where, storage_.get()); };
  set.id_ = {good(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT)), H5Dclose};
  set.space_ = {good(H5Dget_space(set.id_.get())), H5Sclose};
  const Hdf5Id type(good(H5Dget_type(set.id_.get())), H5Tclose);
  const Hdf5Id list(good(H5Dget_create_plist(set.id_.get())), H5Pclose);
  const bool as_required = H5Sget_simple_extent_ndims(set.space_.get()) == 1 &&
                           H5Pget_layout(list.get()) == H5D_CONTIGUOUS &&
                           H5Tequal(type.get(), type_of(dtype, where).get()) > 0;
  if (!as_required)
    throw IoError(fmt::format("{}: must be one-dimensional, contiguous and of type {}: {}", where,
                              to_string(dtype), read_remedy));
  set.elems_ = good(H5Sget_simple_extent_npoints(set.space_.get()));
  return set;
}

void Hdf5File::create_group(const std::string& name) {
  Hdf5Id group(
      made(H5Gcreate2(id_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path_),
      H5Gclose);
  made(group.close(), path_);
}

Hdf5Image Hdf5File::finish() {
  const auto memory = std::dynamic_pointer_cast<Hdf5Memory>(storage_);
  made(id_.close(), path_);
  Hdf5Image image{std::max(memory->room_end, memory->bytes()), {}, memory};
  for (const auto& [at, page] : memory->pages()) {
    const auto within = static_cast<std::size_t>(std::min(Hdf5Memory::page_size, image.bytes - at));
    image.pieces.push_back({at, std::span(page).first(within)});
  }
  return image;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  made(H5get_libversion(&major, &minor, &release), "HDF5");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace shardmark
