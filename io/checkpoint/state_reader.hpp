// SPDX-License-Identifier: Apache-2.0
// Any elements of a checkpoint's states into memory, whatever partition wrote them and whatever
// partition asks: only the files and the blocks that they lie in are read, and every block is
// verified before anything of it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <io/checkpoint/far_memory.hpp>
#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// Elements [first_elem, first_elem + elems) of a state, to be stored at `into` as `dtype`.
struct WantedElements {
  State state = State::master;
  std::int64_t first_elem = 0, elems = 0;
  Dtype dtype = Dtype::fp32;
  std::byte* into = nullptr;
  const FarMemory* far = nullptr;  // where the host does not reach it; must outlive it
};

/// How much a restart has read.
struct ReadTotals {
  std::int64_t files = 0;  // opened
  std::int64_t bytes = 0;  // read of values, whole blocks included
};

/// Reads from the checkpoint in `folder` that `manifest` is of. A parameter that is not stored in
/// the wanted type is made from its fp32 master: exact, or rounded to nearest, as training does.
/// Local. Beside `into` it takes a few MiB. Throws IoError, naming file and dataset: missing, cut,
/// changed, or of another checkpoint.
ReadTotals read_states(const std::string& folder, const Manifest& manifest,
                       std::span<const WantedElements> wanted);

/// Reads all that one part holds of a state, and nothing is kept: are its checksums right. Throws
/// IoError as above.
void verify_part(const std::string& folder, const Manifest& manifest, const CheckpointPart& part,
                 State state);

}  // namespace shardmark
