// SPDX-License-Identifier: Apache-2.0
// The vocabulary that code, labels, plans, reports and decks share: one enum a concept, one
// spelling a value. `to_string` gives the spelling that users see.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardmark {

/// What an event does. The six in the middle are the collectives.
enum class Op : std::uint8_t {
  acquire,
  release,
  compute,
  copy,
  all_gather,
  reduce_scatter,
  all_reduce,
  reduce,
  broadcast,
  barrier
};

/// Which compute an event of `Op::compute` does. What each reads and writes: plan/kernels.hpp.
enum class Kernel : std::uint8_t {
  none,
  init_param,
  zero,
  load_batch,
  forward,
  backward,
  accumulate,
  convert,
  scale,
  interleave,
  rearrange,
  overflow,
  grad_norm,
  clip,
  adamw
};

/// An in-order queue of work: a stream on a device, program order on a host. `disk` moves files.
enum class Lane : std::uint8_t { compute, comm, copy, disk };
inline constexpr int lane_count = 4;

/// What a module of a transformer does; `list`: something with parameters, `container`: nothing.
enum class Role : std::uint8_t {
  container,
  list,
  token_embedding,
  position_embedding,
  norm1,
  qkv,
  q,
  k,
  v,
  attn_proj,
  norm2,
  fc,
  gate,
  up,
  mlp_proj,
  final_norm,
  head
};

enum class Phase : std::uint8_t { init, forward, backward, step };
/// Where states lie: memory of the device or of the host, or files on a disk of the node's.
enum class Tier : std::uint8_t { device, host, nvme };
inline constexpr int tier_count = 3;
inline constexpr Tier memory_tiers[] = {Tier::device, Tier::host};

/// What memory is for, after the ZeRO paper's model states and residual states.
enum class Category : std::uint8_t {
  param,
  grad,
  master,
  momentum,
  variance,
  bucket,
  gathered,
  activation,
  workspace,
  staging
};
inline constexpr int category_count = 10;

enum class Dtype : std::uint8_t { fp32, bf16, fp16, fp64, uint8, int32, int64 };
enum class Reduction : std::uint8_t { none, sum, average, max };

/// Who sums: the library (`native`), or we in rank order, the same at every stage (`ordered`).
enum class Reductions : std::uint8_t { native, ordered };
enum class Family : std::uint8_t { gpt2, llama, list };
enum class Compute : std::uint8_t { train, none };

/// Every acquire an allocation of its own (`strict`), or a fixed place in one arena a tier.
enum class MemoryMode : std::uint8_t { strict, pooled };

std::string_view to_string(Op);
std::string_view to_string(Kernel);
std::string_view to_string(Lane);
std::string_view to_string(Role);
std::string_view to_string(Phase);
std::string_view to_string(Tier);
std::string_view to_string(Category);
std::string_view to_string(Dtype);
std::string_view to_string(Reduction);
std::string_view to_string(Reductions);
std::string_view to_string(Family);
std::string_view to_string(Compute);
std::string_view to_string(MemoryMode);

/// Bytes of one element.
constexpr std::int64_t dtype_bytes(Dtype d) {
  switch (d) {
    case Dtype::fp64:
    case Dtype::int64: return 8;
    case Dtype::fp32:
    case Dtype::int32: return 4;
    case Dtype::bf16:
    case Dtype::fp16: return 2;
    case Dtype::uint8: return 1;
  }
  return 0;
}

constexpr bool is_collective(Op op) {
  return op >= Op::all_gather;
}
constexpr bool is_reduction(Op op) {
  return op == Op::reduce_scatter || op == Op::all_reduce || op == Op::reduce;
}

}  // namespace shardmark
