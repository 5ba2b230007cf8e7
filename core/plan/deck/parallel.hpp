// SPDX-License-Identifier: Apache-2.0
// What divides a model over ranks besides ZeRO, as a DeepSpeed config asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <core/enum_array.hpp>

namespace shardmark {

/// One way to divide a model, by the key of a DeepSpeed config, and how a user does without it.
struct MeshAxis {
  std::string_view key;
  std::int64_t ranks;
  std::string_view remedy = "remove the key, or set it to 1";
  bool of_world = false;  // its groups are blocks of all ranks, whatever other axes there are

  /// The key as a DeepSpeed config has it.
  std::string_view name() const { return key.substr(key.find('.') + 1); }
};

/// Which ranks hold a parameter, divide its states, and add up its gradient: all of the partition
/// or, of experts that ranks divide, those with the same experts.
enum class Holders : std::uint8_t { all, of_experts };
template<>
inline constexpr std::size_t enum_size<Holders> = 2;

/// The ranks over which layers, the sequences of a sample, and the experts of a layer are divided;
/// 1 divides nothing.
struct ParallelSpec {
  std::int64_t tensor = 1;    // tensor_parallel.autotp_size
  std::int64_t sequence = 1;  // sequence_parallel_size
  std::int64_t expert = 1;    // expert_parallel.autoep_size
  // use_data_before_expert_parallelism: ranks with the same experts are neighbours
  bool same_experts_near = false;
  bool operator==(const ParallelSpec&) const = default;
  /// Whether any axis has more than one rank.
  bool divides() const { return tensor > 1 || sequence > 1 || expert > 1; }
  /// The value of train_batch_size for a step of so many sequences. DeepSpeed reads the config
  /// before it makes groups of ranks, and counts each rank of a tensor group, although these have
  /// the same data.
  std::int64_t train_batch_size(std::int64_t sequences) const { return sequences * tensor; }
  /// All axes. Those that come first have nearer neighbours.
  std::array<MeshAxis, 3> axes() const {
    return {{{"deepspeed.tensor_parallel.autotp_size", tensor},
             {"deepspeed.sequence_parallel_size", sequence},
             {"deepspeed.expert_parallel.autoep_size", expert,
              "set expert_parallel.enabled to false", true}}};
  }
};

}  // namespace shardmark
