// SPDX-License-Identifier: Apache-2.0
// Reads any elements of a checkpoint's states into memory, whatever partition wrote them and
// whatever partition asks for them. Only the files and blocks that contain them are read, and every
// block is verified before its data is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <io/checkpoint/far_memory.hpp>
#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// The elements [first_elem, first_elem + elems) of a state, to be stored at `into` as `dtype`.
/// They are counted in the reader's part of the model.
struct WantedElements {
  State state = State::master;
  std::int64_t first_elem = 0, elems = 0;
  Dtype dtype = Dtype::fp32;
  std::byte* into = nullptr;
  const FarMemory* far = nullptr;  // set if the host cannot access `into`; must outlive the request
};

/// How much a restart has read.
struct ReadTotals {
  std::int64_t files = 0;  // files that were opened
  std::int64_t bytes = 0;  // bytes of values that were read, whole blocks included
};

/// Reads from the checkpoint in `folder`, which `manifest` describes, what a reader with the part
/// of the model wants that `view` describes (the whole model if it is empty). A parameter that is
/// not stored in the wanted type is computed from its fp32 master: exactly, or rounded to nearest
/// as in training. Other states are stored as fp32 and rounded to nearest. Local. Uses a few MiB
/// besides `into`. Throws IoError, which names file and dataset, if data is missing, truncated,
/// changed, or of another checkpoint.
ReadTotals read_states(const std::string& folder, const Manifest& manifest,
                       std::span<const WantedElements> wanted, const ModelView& view = {});

/// Reads everything that one part contains of a state and checks the checksums. Throws IoError as
/// above.
void verify_part(const std::string& folder, const Manifest& manifest, const CheckpointPart& part,
                 State state);

}  // namespace shardmark
