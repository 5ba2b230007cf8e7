// SPDX-License-Identifier: Apache-2.0
// The vocabulary that code, labels, plans, reports and decks share: one enum per concept and one
// spelling per value. `to_string` gives the spelling that users see.
#pragma once

#include <cstdint>
#include <string_view>

#include <core/enum_array.hpp>

namespace shardmark {

/// What an event does. The operations from all_gather on are the collectives.
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
  all_to_all,
  barrier
};
template<>
inline constexpr auto value_names<Op> = name_list("acquire", "release", "compute", "copy",
                                                  "all_gather", "reduce_scatter", "all_reduce",
                                                  "reduce", "broadcast", "all_to_all", "barrier");

/// Which computation an event of `Op::compute` carries out. kernels.hpp says what each reads and
/// writes.
enum class Kernel : std::uint8_t {
  none,
  init_param,
  zero,
  load_batch,
  forward,
  backward,
  forward_end,
  backward_end,
  forward_begin,
  backward_begin,
  count_routed,
  attention,
  attention_backward,
  split_heads,
  join_heads,
  split_tokens,
  join_tokens,
  accumulate,
  convert,
  scale,
  interleave,
  rearrange,
  quantize,
  dequantize,
  quantize_int4,
  reduce_int4,
  dequantize_int4,
  sum_parts,
  orthogonalize,
  overflow,
  grad_norm,
  clip,
  clip_gradient,
  unscale,
  rescale,
  adamw,
  lion,
  sgd,
  adagrad,
  muon
};
template<>
inline constexpr auto value_names<Kernel> = name_list(
    "none", "init_param", "zero", "load_batch", "forward", "backward", "forward_end",
    "backward_end", "forward_begin", "backward_begin", "count_routed", "attention",
    "attention_backward", "split_heads", "join_heads", "split_tokens", "join_tokens", "accumulate",
    "convert", "scale", "interleave", "rearrange", "quantize", "dequantize", "quantize_int4",
    "reduce_int4", "dequantize_int4", "sum_parts", "orthogonalize", "overflow", "grad_norm", "clip",
    "clip_gradient", "unscale", "rescale", "adamw", "lion", "sgd", "adagrad", "muon");
/// Whether a kernel is the update of an optimizer.
constexpr bool is_update(Kernel kernel) {
  return kernel >= Kernel::adamw;
}

/// A queue whose work is done in order: a stream on a device, program order on the host. The lane
/// `disk` reads and writes files.
enum class Lane : std::uint8_t { compute, comm, copy, disk };
template<>
inline constexpr auto value_names<Lane> = name_list("compute", "comm", "copy", "disk");
inline constexpr int lane_count = static_cast<int>(enum_size<Lane>);

/// What a module of a transformer computes. A `list` module has parameters and an unknown
/// computation; a `container` has neither.
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
  head,
  q_norm,
  k_norm,
  post_norm1,  // of attention's output
  post_norm2,  // of the MLP's output
  embedding_norm,
  router,       // chooses the experts of each token
  experts,      // all experts of a layer
  shared_gate,  // gate, up and down of the expert that every token has
  shared_up,
  shared_down,
  shared_router,  // the factor of that expert
  sinks,          // of attention, in a module around it
  lora_a,         // the factors of an adapter: its input times A, and the result times B
  lora_b,
  q_a,  // latent attention: queries by two products with a norm in between
  q_a_norm,
  q_b,
  kv_a,  // the latent of keys and values, beside it the channels of keys that are rotated
  kv_a_norm,
  kv_b
};
template<>
inline constexpr auto value_names<Role> =
    name_list("container", "list", "token_embedding", "position_embedding", "norm1", "qkv", "q",
              "k", "v", "attn_proj", "norm2", "fc", "gate", "up", "mlp_proj", "final_norm", "head",
              "q_norm", "k_norm", "post_norm1", "post_norm2", "embedding_norm", "router", "experts",
              "shared_gate", "shared_up", "shared_down", "shared_router", "sinks", "lora_a",
              "lora_b", "q_a", "q_a_norm", "q_b", "kv_a", "kv_a_norm", "kv_b");

/// The part of a step that an event belongs to. The phase `init` is start-up, before the first
/// step.
enum class Phase : std::uint8_t { init, forward, backward, step };
template<>
inline constexpr auto value_names<Phase> = name_list("init", "forward", "backward", "step");

/// Where states lie: in memory of the device or the host, or in files on a disk of the node.
enum class Tier : std::uint8_t { device, host, nvme };
template<>
inline constexpr auto value_names<Tier> = name_list("device", "host", "nvme");
inline constexpr Tier memory_tiers[] = {Tier::device, Tier::host};

/// What memory is used for, after the model states and residual states of the ZeRO paper.
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
template<>
inline constexpr auto value_names<Category> = name_list("param", "grad", "master", "momentum",
                                                        "variance", "bucket", "gathered",
                                                        "activation", "workspace", "staging");

/// The model states that a rank keeps from step to step, in the order of their bytes in a
/// checkpoint.
enum class State : std::uint8_t { param, master, momentum, variance };
template<>
inline constexpr auto value_names<State> = name_list("param", "master", "momentum", "variance");
/// Whether it is an optimizer's average of gradients or of their squares.
constexpr bool is_moment(State state) {
  return state == State::momentum || state == State::variance;
}

/// The type of the elements of a slot, a message or a parameter.
enum class Dtype : std::uint8_t { fp32, bf16, fp16, fp64, uint8, int32, int64, int8 };
template<>
inline constexpr auto value_names<Dtype> = name_list("fp32", "bf16", "fp16", "fp64", "uint8",
                                                     "int32", "int64", "int8");

/// How a collective combines the values of its ranks; `none` for those that only move values.
enum class Reduction : std::uint8_t { none, sum, average, max };
template<>
inline constexpr auto value_names<Reduction> = name_list("none", "sum", "average", "max");

/// Who adds up over ranks: the library (`native`), or this program in rank order, with the same
/// bits at every stage (`ordered`).
enum class Reductions : std::uint8_t { native, ordered };
template<>
inline constexpr auto value_names<Reductions> = name_list("native", "ordered");

/// Whether a run computes (`train`), or only communicates and keeps the memory (`none`).
enum class Compute : std::uint8_t { train, none };
template<>
inline constexpr auto value_names<Compute> = name_list("train", "none");

/// Whether each acquire allocates (`strict`), or takes a fixed place in one arena per tier.
enum class MemoryMode : std::uint8_t { strict, pooled };
template<>
inline constexpr auto value_names<MemoryMode> = name_list("strict", "pooled");

/// Bytes per element.
constexpr std::int64_t dtype_bytes(Dtype d) {
  switch (d) {
    case Dtype::fp64:
    case Dtype::int64: return 8;
    case Dtype::fp32:
    case Dtype::int32: return 4;
    case Dtype::bf16:
    case Dtype::fp16: return 2;
    case Dtype::int8:
    case Dtype::uint8: return 1;
  }
  return 0;
}

/// Whether all ranks of a group take part in the operation.
constexpr bool is_collective(Op op) {
  return op >= Op::all_gather;
}

/// Whether the whole array of the operation consists of a part for or from each rank.
constexpr bool has_parts(Op op) {
  return op == Op::all_gather || op == Op::reduce_scatter || op == Op::all_to_all;
}

/// Whether the operation combines values of several ranks. These have a `Reduction`.
constexpr bool is_reduction(Op op) {
  return op == Op::reduce_scatter || op == Op::all_reduce || op == Op::reduce;
}

}  // namespace shardmark
