// SPDX-License-Identifier: Apache-2.0
// Writes the part of a checkpoint that one rank owns into its file: one dataset per state, and one
// with the checksums of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include <core/plan/plan.hpp>
#include <io/checkpoint/far_memory.hpp>

namespace shardmark {

/// Consecutive elements of a state in memory.
struct StateSlice {
  const std::byte* data = nullptr;
  std::int64_t elems = 0;
  const FarMemory* far = nullptr;  // set if the host cannot access `data`; must outlive the slice
  // Set if they are of this 16-bit type, although the state is fp32.
  std::optional<Dtype> narrow = {};
};

/// Copies elements [at, at + elems) of `slice` to `into` as elements of `dtype`, the state's type.
void fetch_elements(const StateSlice& slice, std::int64_t at, std::int64_t elems, Dtype dtype,
                    std::byte* into);

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
  MPI_Comm comm = MPI_COMM_NULL;  // of the ranks that share the file; MPI_COMM_NULL: one rank
  std::vector<std::pair<std::string, std::string>> hints;  // MPI_Info for its creation
  std::int64_t alignment_bytes = 1;    // of datasets that are at least this large
  std::int64_t offset = 0, elems = 0;  // the place of this part, in elements
  std::int64_t first_block = 0;        // the place of this part, in blocks of checksums
  std::int64_t file_elems = 0, file_blocks = 0;
};

/// What one rank wrote: the checksum and the place of each dataset.
struct WrittenPart {
  EnumArray<State, std::uint64_t> digest{};
  EnumArray<State, std::int64_t> first_byte{};  // of each dataset in the file
  std::int64_t file_bytes = 0;
};

/// Returns the name of the dataset with a state's checksums: `checksums/master`.
std::string checksum_dataset(State state);

/// Collective over `comm` if ranks share the file. One rank creates the file; then each rank
/// writes its part, flushes it to the disk and closes the file. The ranks agree on errors after
/// both phases, and no call on the file waits for another rank. Throws IoError, on all ranks.
WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources);

}  // namespace shardmark
