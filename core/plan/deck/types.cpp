// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/types.hpp>

namespace shardmark {
namespace {

constexpr auto ops =
    enum_names<Op>("acquire", "release", "compute", "copy", "all_gather", "reduce_scatter",
                   "all_reduce", "reduce", "broadcast", "all_to_all", "barrier");
constexpr auto kernels = enum_names<Kernel>(
    "none", "init_param", "zero", "load_batch", "forward", "backward", "forward_end",
    "backward_end", "forward_begin", "backward_begin", "count_routed", "attention",
    "attention_backward", "split_heads", "join_heads", "split_tokens", "join_tokens", "accumulate",
    "convert", "scale", "interleave", "rearrange", "quantize", "dequantize", "quantize_int4",
    "reduce_int4", "dequantize_int4", "sum_parts", "orthogonalize", "overflow", "grad_norm", "clip",
    "clip_gradient", "unscale", "rescale", "adamw", "lion", "sgd", "adagrad", "muon");
constexpr auto lanes = enum_names<Lane>("compute", "comm", "copy", "disk");
constexpr auto roles = enum_names<Role>(
    "container", "list", "token_embedding", "position_embedding", "norm1", "qkv", "q", "k", "v",
    "attn_proj", "norm2", "fc", "gate", "up", "mlp_proj", "final_norm", "head", "q_norm", "k_norm",
    "post_norm1", "post_norm2", "embedding_norm", "router", "experts", "shared_gate", "shared_up",
    "shared_down", "shared_router", "sinks", "lora_a", "lora_b", "q_a", "q_a_norm", "q_b", "kv_a",
    "kv_a_norm", "kv_b");
constexpr auto phases = enum_names<Phase>("init", "forward", "backward", "step");
constexpr auto tiers = enum_names<Tier>("device", "host", "nvme");
constexpr auto categories =
    enum_names<Category>("param", "grad", "master", "momentum", "variance", "bucket", "gathered",
                         "activation", "workspace", "staging");
constexpr auto dtypes =
    enum_names<Dtype>("fp32", "bf16", "fp16", "fp64", "uint8", "int32", "int64", "int8");
constexpr auto reduction_names = enum_names<Reduction>("none", "sum", "average", "max");
constexpr auto reductions_names = enum_names<Reductions>("native", "ordered");
constexpr auto compute_names = enum_names<Compute>("train", "none");
constexpr auto memory_modes = enum_names<MemoryMode>("strict", "pooled");

// A damaged checkpoint or a test may hold a number that is no value of the enum.
template<class E>
std::string_view name_of(const EnumArray<E, std::string_view>& names, E value) {
  return static_cast<std::size_t>(value) < names.size() ? names[value] : std::string_view("?");
}

}  // namespace

std::string_view to_string(Op v) {
  return name_of(ops, v);
}
std::string_view to_string(Kernel v) {
  return name_of(kernels, v);
}
std::string_view to_string(Lane v) {
  return name_of(lanes, v);
}
std::string_view to_string(Role v) {
  return name_of(roles, v);
}
std::string_view to_string(Phase v) {
  return name_of(phases, v);
}
std::string_view to_string(Tier v) {
  return name_of(tiers, v);
}
std::string_view to_string(Category v) {
  return name_of(categories, v);
}
std::string_view to_string(Dtype v) {
  return name_of(dtypes, v);
}
std::string_view to_string(Reduction v) {
  return name_of(reduction_names, v);
}
std::string_view to_string(Reductions v) {
  return name_of(reductions_names, v);
}
std::string_view to_string(Compute v) {
  return name_of(compute_names, v);
}
std::string_view to_string(MemoryMode v) {
  return name_of(memory_modes, v);
}

}  // namespace shardmark
