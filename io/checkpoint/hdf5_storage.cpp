// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <hdf5.h>
#include <unistd.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <io/checkpoint/hdf5_storage.hpp>

namespace shardmark {
namespace {

// What HDF5 hands back to each function of the driver. `base` comes first: HDF5 knows only that.
struct DriverFile {
  H5FD_t base;
  Hdf5Storage* storage;
};

struct DriverInfo {
  Hdf5Storage* storage;
};

DriverFile& driver_file(H5FD_t* file) {
  return *reinterpret_cast<DriverFile*>(file);
}
const DriverFile& driver_file(const H5FD_t* file) {
  return *reinterpret_cast<const DriverFile*>(file);
}

H5FD_t* open_storage(const char*, unsigned, hid_t list, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(list));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) DriverFile{{}, info->storage};
  return file == nullptr ? nullptr : &file->base;
}

herr_t close_storage(H5FD_t* file) {
  delete &driver_file(file);
  return 0;
}

// As HDF5's own drivers for files: small pieces of metadata are laid out side by side.
herr_t ask_storage(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr)
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t room_end(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(driver_file(file).storage->room_end);
}
herr_t set_room_end(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  driver_file(file).storage->room_end = static_cast<std::int64_t>(end);
  return 0;
}
haddr_t bytes_end(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(driver_file(file).storage->bytes());
}

herr_t read_storage(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, void* into) {
  const std::span<std::byte> to(static_cast<std::byte*>(into), bytes);
  return driver_file(file).storage->read(static_cast<std::int64_t>(at), to) ? 0 : -1;
}
herr_t write_storage(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t bytes, const void* data) {
  const std::span<const std::byte> from(static_cast<const std::byte*>(data), bytes);
  return driver_file(file).storage->write(static_cast<std::int64_t>(at), from) ? 0 : -1;
}

hid_t register_driver() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(400);  // of those that HDF5 leaves to programs
#endif
  driver.name = "shardmark";
  driver.maxaddr = HADDR_MAX;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_storage;
  driver.close = close_storage;
  driver.query = ask_storage;
  driver.get_eoa = room_end;
  driver.set_eoa = set_room_end;
  driver.get_eof = bytes_end;
  driver.read = read_storage;
  driver.write = write_storage;
  constexpr H5FD_mem_t kinds[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kinds), std::end(kinds), std::begin(driver.fl_map));
  return H5FDregister(&driver);
}

}  // namespace

bool set_hdf5_storage(std::int64_t property_list, Hdf5Storage& storage) {
  static const hid_t driver = register_driver();
  const DriverInfo info{&storage};
  return driver >= 0 && H5Pset_driver(property_list, driver, &info) >= 0;
}

bool Hdf5Memory::read(std::int64_t at, std::span<std::byte> into) noexcept {
  std::fill(into.begin(), into.end(), std::byte{0});
  while (!into.empty()) {
    const std::int64_t in_page = at % page_size;
    const auto n = static_cast<std::size_t>(
        std::min(page_size - in_page, static_cast<std::int64_t>(into.size())));
    if (const auto page = pages_.find(at - in_page); page != pages_.end())
      std::memcpy(into.data(), page->second.data() + in_page, n);
    into = into.subspan(n);
    at += static_cast<std::int64_t>(n);
  }
  return true;
}

bool Hdf5Memory::write(std::int64_t at, std::span<const std::byte> from) noexcept {
  try {
    while (!from.empty()) {
      const std::int64_t in_page = at % page_size;
      const auto n = static_cast<std::size_t>(
          std::min(page_size - in_page, static_cast<std::int64_t>(from.size())));
      Page& page = pages_[at - in_page];
      page.resize(page_size);
      std::memcpy(page.data() + in_page, from.data(), n);
      from = from.subspan(n);
      at += static_cast<std::int64_t>(n);
    }
    end_ = std::max(end_, at);
    return true;
  } catch (const std::bad_alloc&) {  // HDF5 is C: nothing may be thrown through it
    return false;
  }
}

Hdf5Disk::Hdf5Disk(const std::string& path)
    : file_(open_regular_file(path, "give another checkpoint as checkpoint.resume")) {}

bool Hdf5Disk::read(std::int64_t at, std::span<std::byte> into) noexcept {
  while (!into.empty()) {
    const ssize_t n = ::pread(file_.fd.get(), into.data(), into.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      failure_ = std::strerror(errno);
      return false;
    }
    if (n == 0) {  // HDF5 may ask for what is behind the end, and takes zeros for it
      std::fill(into.begin(), into.end(), std::byte{0});
      return true;
    }
    into = into.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  return true;
}

}  // namespace shardmark
