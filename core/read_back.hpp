// SPDX-License-Identifier: Apache-2.0
// Copies of small values between device and host: losses, norms, flags and self-check results to
// the host, token batches to the device. When the device's memory is the host's, a copy is a
// memcpy.
#pragma once

#include <cstddef>
#include <cstring>

#include <core/kokkos_shim.hpp>

namespace shardmark {

namespace detail {
/// Memory that somebody else owns, as an array for `Kokkos::deep_copy`.
template<class T, class Where>
using BytesView = Kokkos::View<T*, Where, Kokkos::MemoryUnmanaged>;
}  // namespace detail

/// Copies `bytes` bytes from device to host after all work queued on `space`, and waits for the
/// copy.
inline void copy_to_host(const Space& space, void* to, const void* from, std::size_t bytes) {
  if constexpr (device_is_host) {
    fence(space, "shardmark::copy_to_host");
    std::memcpy(to, from, bytes);
  } else {
    Kokkos::deep_copy(
        space, detail::BytesView<std::byte, Kokkos::HostSpace>(static_cast<std::byte*>(to), bytes),
        detail::BytesView<const std::byte, Space::memory_space>(static_cast<const std::byte*>(from),
                                                                bytes));
    fence(space, "shardmark::copy_to_host");
  }
}

/// Copies `bytes` bytes from host to device after all work queued on `space`, and waits for the
/// copy, so the caller may free `from` at once.
inline void copy_to_device(const Space& space, void* to, const void* from, std::size_t bytes) {
  if constexpr (device_is_host) {
    fence(space, "shardmark::copy_to_device");
    std::memcpy(to, from, bytes);
  } else {
    Kokkos::deep_copy(
        space,
        detail::BytesView<std::byte, Space::memory_space>(static_cast<std::byte*>(to), bytes),
        detail::BytesView<const std::byte, Kokkos::HostSpace>(static_cast<const std::byte*>(from),
                                                              bytes));
    fence(space, "shardmark::copy_to_device");
  }
}

/// Returns the value at the device address `data` after all work queued on `space`.
template<class T>
T read_back(const Space& space, const T* data) {
  T value;
  copy_to_host(space, &value, data, sizeof value);
  return value;
}

}  // namespace shardmark
