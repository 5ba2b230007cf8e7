// SPDX-License-Identifier: Apache-2.0
// The memory of one slot while it is alive: what an acquire event allocates and a release event
// frees. A labelled Kokkos View, so that the ledger hears of it by listening and is never told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/memory/label.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// Where a tier's memory lies: the device's own, or the host's, pinned. The same on a CPU-only
/// build, where the two tiers are still accounted apart.
using DeviceMemory = Space::memory_space;
using HostMemory = PinnedMemory;

/// Owns memory of a tier, labelled, uninitialised, aligned to 64. Move-only; local. Null
/// where that is 0.
/// Destroying it frees at once: whoever used it on another lane must be done by then.
class Buffer {
 public:
  /// Throws MemoryError when the system has no such memory.
  explicit Buffer(const Slot& slot)
      : Buffer(slot.tier, alloc_bytes(slot), memory_label(slot.tier, slot.category, slot.name)) {}
  /// The same, of `bytes`; what the ledger makes of it is in `label`.
  Buffer(Tier tier, std::int64_t bytes, const std::string& label) : tier_(tier), bytes_(bytes) {
    if (bytes_ == 0) return;
    // Not a View: its sizes are rounded up to 8 bytes, which the ledger would hear.
    try {
      const auto size = static_cast<std::size_t>(bytes_);
      data_ = static_cast<std::byte*>(tier_ == Tier::device
                                          ? Kokkos::kokkos_malloc<DeviceMemory>(label, size)
                                          : Kokkos::kokkos_malloc<HostMemory>(label, size));
    } catch (const std::exception&) {  // its type differs between Kokkos releases
      throw MemoryError("memory: " + label + " = " + std::to_string(bytes_) +
                        " bytes: more than the system gives: set memory." +
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

  /// The first element, as seen from the tier's own memory space. Null after a move from it.
  template<class T>
  T* data() const {
    static_assert(std::is_trivially_copyable_v<T>,
                  "a buffer holds plain bytes: its element type must be trivially copyable");
    static_assert(alignof(T) <= 64,
                  "buffers are aligned to 64 bytes, which is too little for this type");
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
