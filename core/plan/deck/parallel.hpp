// SPDX-License-Identifier: Apache-2.0
// What divides a model over ranks besides ZeRO, as a DeepSpeed config asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardmark {

/// One way to divide a model, by the key of a DeepSpeed config.
struct MeshAxis {
  std::string_view key;
  std::int64_t ranks;
};

/// The ranks over which layers, and the sequences of a sample, are divided; 1 divides nothing.
struct ParallelSpec {
  std::int64_t tensor = 1;    // tensor_parallel.autotp_size
  std::int64_t sequence = 1;  // sequence_parallel_size
  bool operator==(const ParallelSpec&) const = default;
  /// All axes. Those that come first have nearer neighbours.
  std::array<MeshAxis, 2> axes() const {
    return {{{"deepspeed.tensor_parallel.autotp_size", tensor},
             {"deepspeed.sequence_parallel_size", sequence}}};
  }
};

}  // namespace shardmark
