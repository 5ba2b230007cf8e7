// SPDX-License-Identifier: Apache-2.0
// Writes the part of a checkpoint that one rank owns into its file: one dataset per state, and one
// with the checksums of each.
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
  const FarMemory* far = nullptr;  // set if the host cannot access `data`; must outlive the slice
};

/// Copies `bytes` bytes from `from`, an address in the memory of `slice`, to host memory.
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

/// A file and the place of this rank's part in it. If the rank is alone in the file, the offset is
/// 0 and all sizes are those of the part.
struct PartPlace {
  std::string path;
  Hdf5Access access;
  std::int64_t offset = 0, elems = 0;  // the place of this part, in elements
  std::int64_t first_block = 0;        // the place of this part, in blocks of checksums
  std::int64_t file_elems = 0, file_blocks = 0;
  // The largest part of the file: all its ranks transfer equally often.
  std::int64_t largest_part = 0;
};

/// What one rank wrote: the checksum and the place of each dataset.
struct WrittenPart {
  std::array<std::uint64_t, state_count> digest{};
  std::array<std::int64_t, state_count> first_byte{};
  bool collective = false;  // every transfer of values of a shared file really was collective
};

/// Returns the name of the dataset with a state's checksums: `checksums/master`.
std::string checksum_dataset(State state);

/// Creates the file, writes the part, and closes the file; collective over access.comm if ranks
/// share the file. The file is not flushed to the disk yet. Throws IoError.
WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources);

}  // namespace shardmark
