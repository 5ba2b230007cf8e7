// SPDX-License-Identifier: Apache-2.0
// Exports the full fp32 parameters of a checkpoint under their tensor names, whatever partition
// wrote them: as one HDF5 file, and as `.safetensors` for Python programs.
#pragma once

#include <functional>
#include <string>

#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// Called from time to time with the bytes that are done and the total.
using WorkDone = std::function<void(std::int64_t done, std::int64_t all)>;

/// Writes `stem`.h5 and `stem`.safetensors, and for a run that trained an adapter a folder
/// `stem`.adapter that PEFT loads; each file whole or not at all. Existing files are replaced.
/// Returns the paths of the files.
/// Calls `progress` after each chunk. Uses about 100 MiB of memory, whatever the size of the model.
/// Refuses names that HDF5 or safetensors cannot hold before it writes anything.
/// Not collective. Throws IoError.
std::vector<std::string> consolidate(const std::string& folder, const Manifest& manifest,
                                     const std::string& stem, const WorkDone& progress);

}  // namespace shardmark
