// SPDX-License-Identifier: Apache-2.0
// The few values of the device that the host looks at: losses, norms, flags, what a self-check
// compares; and those that it makes: batches of tokens. Where the device's memory is the host's, a
// plain copy.
#pragma once

#include <cstddef>
#include <cstring>

#include <core/kokkos_shim.hpp>

namespace shardmark {

namespace detail {
template<class T, class Where>
using BytesView = Kokkos::View<T*, Where, Kokkos::MemoryUnmanaged>;
}

/// Copies `bytes` of the device to the host, after what `space` was given. The host waits.
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

/// Copies `bytes` of the host to the device, after what `space` was given. The host waits, so that
/// `from` may go.
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

/// The value at `data`, memory of the device, after what `space` was given.
template<class T>
T read_back(const Space& space, const T* data) {
  T value;
  copy_to_host(space, &value, data, sizeof value);
  return value;
}

}  // namespace shardmark
