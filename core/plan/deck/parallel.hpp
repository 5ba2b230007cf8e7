// SPDX-License-Identifier: Apache-2.0
// What divides a model over ranks besides ZeRO, as a DeepSpeed config asks for it.
#pragma once

#include <cstdint>

namespace shardmark {

/// The ranks over which layers are divided; 1 divides nothing.
struct ParallelSpec {
  std::int64_t tensor = 1;  // tensor_parallel.autotp_size
  bool operator==(const ParallelSpec&) const = default;
  bool divides() const { return tensor > 1; }
};

}  // namespace shardmark
