// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <core/plan/deck/types.hpp>

namespace shardmark {
namespace {
template<class E, std::size_t N>
std::string_view name_of(E value, const std::array<std::string_view, N>& names) {
  const auto i = static_cast<std::size_t>(value);
  return i < N ? names[i] : std::string_view{"?"};
}
using namespace std::string_view_literals;
}  // namespace

std::string_view to_string(Op v) {
  static constexpr std::array names{"acquire"sv,    "release"sv,        "compute"sv,    "copy"sv,
                                    "all_gather"sv, "reduce_scatter"sv, "all_reduce"sv, "reduce"sv,
                                    "broadcast"sv,  "barrier"sv};
  return name_of(v, names);
}
std::string_view to_string(Kernel v) {
  static constexpr std::array names{"none"sv,      "init_param"sv, "zero"sv,       "load_batch"sv,
                                    "forward"sv,   "backward"sv,   "accumulate"sv, "convert"sv,
                                    "scale"sv,     "interleave"sv, "rearrange"sv,  "overflow"sv,
                                    "grad_norm"sv, "clip"sv,       "adamw"sv};
  return name_of(v, names);
}
std::string_view to_string(Lane v) {
  static constexpr std::array names{"compute"sv, "comm"sv, "copy"sv, "disk"sv};
  return name_of(v, names);
}
std::string_view to_string(Role v) {
  static constexpr std::array names{"container"sv,
                                    "list"sv,
                                    "token_embedding"sv,
                                    "position_embedding"sv,
                                    "norm1"sv,
                                    "qkv"sv,
                                    "q"sv,
                                    "k"sv,
                                    "v"sv,
                                    "attn_proj"sv,
                                    "norm2"sv,
                                    "fc"sv,
                                    "gate"sv,
                                    "up"sv,
                                    "mlp_proj"sv,
                                    "final_norm"sv,
                                    "head"sv};
  return name_of(v, names);
}
std::string_view to_string(Phase v) {
  static constexpr std::array names{"init"sv, "forward"sv, "backward"sv, "step"sv};
  return name_of(v, names);
}
std::string_view to_string(Tier v) {
  static constexpr std::array names{"device"sv, "host"sv, "nvme"sv};
  return name_of(v, names);
}
std::string_view to_string(Category v) {
  static constexpr std::array names{"param"sv,     "grad"sv,   "master"sv,   "momentum"sv,
                                    "variance"sv,  "bucket"sv, "gathered"sv, "activation"sv,
                                    "workspace"sv, "staging"sv};
  return name_of(v, names);
}
std::string_view to_string(Dtype v) {
  static constexpr std::array names{"fp32"sv,  "bf16"sv,  "fp16"sv, "fp64"sv,
                                    "uint8"sv, "int32"sv, "int64"sv};
  return name_of(v, names);
}
std::string_view to_string(Reduction v) {
  static constexpr std::array names{"none"sv, "sum"sv, "average"sv, "max"sv};
  return name_of(v, names);
}
std::string_view to_string(Reductions v) {
  static constexpr std::array names{"native"sv, "ordered"sv};
  return name_of(v, names);
}
std::string_view to_string(Family v) {
  static constexpr std::array names{"gpt2"sv, "llama"sv, "list"sv};
  return name_of(v, names);
}
std::string_view to_string(Compute v) {
  static constexpr std::array names{"train"sv, "none"sv};
  return name_of(v, names);
}
std::string_view to_string(MemoryMode v) {
  static constexpr std::array names{"strict"sv, "pooled"sv};
  return name_of(v, names);
}

}  // namespace shardmark
