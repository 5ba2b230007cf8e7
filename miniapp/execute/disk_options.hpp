// SPDX-License-Identifier: Apache-2.0
// States in files: where they lie and how they are moved, as a deck's offload sections and `aio`
// say; and what the kernel saw of it.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

struct DiskOptions {
  std::string folder, param_folder;  // of optimizer states and gradients; of parameters
  std::int64_t step_bytes = std::int64_t{8} << 20;  // of one system call
  double timeout_s = 600;                           // of one transfer
};

/// What the kernel says that the disk lane's thread moved to and from disks, bytes.
struct DiskBytes {
  std::int64_t read = 0, written = 0;
};

}  // namespace shardmark
