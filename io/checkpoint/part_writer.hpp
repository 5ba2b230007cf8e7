// SPDX-License-Identifier: Apache-2.0
// One rank's part of a checkpoint into its file: a dataset a state, and one of checksums beside it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>
#include <io/checkpoint/far_memory.hpp>
#include <io/checkpoint/hdf5.hpp>

namespace shardmark {

/// Consecutive elements of a state in memory.
struct StateSlice {
  const std::byte* data = nullptr;
  std::int64_t elems = 0;
  const FarMemory* far = nullptr;  // where the host does not reach it; must outlive it
};

/// Copies the first `bytes` from `from` on, in a slice's memory, to the host.
inline void fetch(const StateSlice& slice, void* to, const std::byte* from, std::int64_t bytes) {
  if (slice.far != nullptr) return slice.far->fetch(to, from, bytes);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// A state as this rank writes it: slices in the order of the part's map.
struct StateSource {
  State state = State::master;
  Dtype dtype = Dtype::fp32;
  std::vector<StateSlice> slices;
};

/// A file and this rank's place in it. Alone in it: offset 0, and all sizes are its own.
struct PartPlace {
  std::string path;
  Hdf5Access access;
  std::int64_t offset = 0, elems = 0;  // of this part
  std::int64_t first_block = 0;        // the same in blocks of checksums
  std::int64_t file_elems = 0, file_blocks = 0;
  std::int64_t largest_part = 0;  // of the file: all its ranks transfer equally often
};

/// What one rank wrote: the checksum and the place of each dataset.
struct WrittenPart {
  std::array<std::uint64_t, state_count> digest{};
  std::array<std::int64_t, state_count> first_byte{};
  bool collective = false;  // every transfer of values of a shared file really was
};

/// Name of a state's checksums in a file: `checksums/master`.
std::string checksum_dataset(State state);

/// Creates the file (with the others that share it: collective over access.comm), writes, closes.
/// Nothing is flushed to the disk yet. Throws IoError.
WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources);

}  // namespace shardmark
