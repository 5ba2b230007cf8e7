// SPDX-License-Identifier: Apache-2.0
// The memory of one slot while the slot is alive: an acquire event allocates it, a release event
// frees it. Kokkos allocates it under a label, so the ledger sees it through Kokkos' callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <core/cache_line.hpp>
#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/label.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// The memory spaces of the two tiers: the device's memory, and pinned memory of the host. A
/// CPU-only build has one memory for both; the ledger still counts the tiers separately.
using DeviceMemory = Space::memory_space;
using HostMemory = PinnedMemory;

/// Owns uninitialised memory of one tier, aligned to 64 bytes and labelled for the ledger.
/// Move-only. A buffer of 0 bytes allocates nothing and its `data()` is null. The destructor frees
/// at once, so work on other lanes that uses the memory must have finished. Not collective.
class Buffer {
 public:
  /// Allocates the padded size of `slot`. Throws MemoryError when the system cannot.
  explicit Buffer(const Slot& slot)
      : Buffer(slot.tier, alloc_bytes(slot), memory_label(slot.tier, slot.category, slot.name)) {}
  /// Allocates `bytes` bytes; the ledger reads tier and category from `label`.
  Buffer(Tier tier, std::int64_t bytes, const std::string& label) : tier_(tier), bytes_(bytes) {
    if (bytes_ == 0) return;
    // A View would round its size up to a multiple of 8 bytes, and the ledger would count that.
    try {
      const auto size = static_cast<std::size_t>(bytes_);
      if (tier_ == Tier::device)
        data_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<DeviceMemory>(label, size));
      else
        data_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<HostMemory>(label, size));
    } catch (const std::exception&) {  // the type of the exception depends on the Kokkos release
      throw MemoryError("memory: " + label + " = " + std::to_string(bytes_) +
                        " bytes: the system cannot allocate this much: set memory." +
                        std::string(to_string(tier_)) +
                        "_gib in the deck to what the machine has, or use a higher ZeRO stage");
    }
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ == nullptr) return;
    if (tier_ == Tier::device)
      Kokkos::kokkos_free<DeviceMemory>(data_);
    else
      Kokkos::kokkos_free<HostMemory>(data_);
  }

  /// The address of the first byte, in the tier's memory space. Null after the buffer was moved
  /// from.
  template<class T>
  T* data() const {
    static_assert(std::is_trivially_copyable_v<T>,
                  "a buffer holds plain bytes, so its element type must be trivially copyable");
    static_assert(alignof(T) <= cache_line_bytes,
                  "a buffer is aligned to 64 bytes, which is too little for this element type");
    return reinterpret_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }
  Tier tier() const { return tier_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(tier_, other.tier_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
  }

  Tier tier_ = Tier::device;
  std::int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace shardmark
