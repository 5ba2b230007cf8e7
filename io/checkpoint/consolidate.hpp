// SPDX-License-Identifier: Apache-2.0
// A checkpoint's full fp32 parameters under their tensor names, whatever partition wrote them: as
// one HDF5 file, and as `.safetensors` for the Python world.
#pragma once

#include <functional>
#include <string>

#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// Told now and then: bytes done, of how many.
using WorkDone = std::function<void(std::int64_t done, std::int64_t all)>;

/// Writes `stem`.h5 and `stem`.safetensors, whole or not at all; the first takes the place of an
/// older one. Takes about 100 MiB of memory, whatever the model. Throws IoError.
void consolidate(const std::string& folder, const Manifest& manifest, const std::string& stem,
                 const WorkDone& told);

}  // namespace shardmark
