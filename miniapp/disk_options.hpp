// SPDX-License-Identifier: Apache-2.0
// Where states in files lie, and how they are moved: what a deck's offload sections and `aio` say.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

struct DiskOptions {
  std::string folder, param_folder;  // of optimizer states and gradients; of parameters
  std::int64_t step_bytes = std::int64_t{8} << 20;  // of one system call
  double timeout_s = 600;                           // of one transfer
};

}  // namespace shardmark
