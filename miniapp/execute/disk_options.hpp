// SPDX-License-Identifier: Apache-2.0
// States in files: where the files are and how they are transferred, from a deck's offload sections
// and its `aio`, and what the kernel counted.
#pragma once

#include <cstdint>
#include <string>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Where files of states are, and how they are read and written.
struct DiskOptions {
  std::string folder;                               // of optimizer states and gradients
  std::string param_folder;                         // of parameters
  std::int64_t step_bytes = std::int64_t{8} << 20;  // of one system call
  double timeout_s = 600;                           // of one transfer
};

/// Reads the options from the sections offload_optimizer, offload_param, aio and comm. The folders
/// are empty if no state lies in files.
DiskOptions disk_options(const Deck& deck);

/// Bytes that the disk lane's thread transferred to and from disks, as the kernel counts them.
struct DiskBytes {
  std::int64_t read = 0, written = 0;
};

}  // namespace shardmark
