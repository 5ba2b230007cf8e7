// SPDX-License-Identifier: Apache-2.0
// Which models the axes besides data can divide (docs/axes.md).
#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {
namespace {

// Why AutoTP and AutoEP together cannot divide the layers of a mixture.
std::string undividable_mixture(const Decoder& d) {
  Decoder dense = d;
  dense.moe = {};
  if (!is_plain(dense) || d.attention.qkv != QkvLayout::separate || !d.mlp.gated)
    return "blocks of another kind than Mixtral's";
  if (some_lack_experts(d) || d.moe.shared_ffn > 0)
    return "layers without experts, or with a shared one";
  if (d.attention.bias || d.mlp.bias) return "biases of the products that ranks add up";
  if (d.ends.head_bias || d.ends.logits_factor != 1 || d.ends.logits_softcap > 0)
    return "a head with a bias, a factor or a softcap";
  return {};
}

// Why the blocks cannot be divided, whatever their sizes are.
std::string undividable_blocks(const Decoder& d, bool experts_too) {
  if (d.adapted()) return "an adapter";
  if (d.autotp == TensorPlan::none)
    return "a type that DeepSpeed ends with \"AutoTP not supported for model\" or \"HuggingFace "
           "tp_plan contains unsupported partition style(s)\"";
  if (d.attention.qkv == QkvLayout::joined) return "a joined product of queries, keys and values";
  if (d.mlp.joined || d.in_out) return "products whose weights are joined or turned";
  if (d.attention.sinks || d.positions.kind == PositionKind::alibi)
    return "scores that depend on the number of a head";
  if (experts_too) return undividable_mixture(d);
  if (d.moe.experts > 0) return "experts, which AutoTP does not divide without expert_parallel";
  if (d.latent()) return "latent attention";
  if (d.norm.qk == QkNorm::all) return "norms of queries and keys over all heads";
  if (!d.norms_before()) return "blocks without norms before their sublayers";
  if (d.norms_after() && (d.attention.bias || d.mlp.bias))
    return "biases of products that a norm follows";
  return {};
}

}  // namespace

std::string undividable(const ModelSpec& s, std::int64_t ranks, bool experts_too) {
  if (s.family == Family::list) return "a list of modules, whose products are unknown";
  if (s.family == Family::gpt2) return "the family gpt2, for which AutoTP has no policy";
  if (std::string what = undividable_blocks(*decoder_of(s), experts_too); !what.empty())
    return what;
  if (const std::int64_t keys = kv_heads_of(s); experts_too)
    return keys % ranks == 0 ? "" : fmt::format("{} heads of keys and values", keys);
  if (ffn_of(s) < ranks) return fmt::format("a feed-forward width of {}", ffn_of(s));
  if (s.vocab < ranks) return fmt::format("a vocabulary of {}", s.vocab);
  // By names alone AutoTP may take a product of the MLP for one of attention.
  ModelSpec divided = s;
  divided.part.ranks = ranks;
  if (decoder_of(s)->autotp == TensorPlan::inferred && !divides_evenly(divided))
    return "a type without a plan of transformers, and sizes that do not divide";
  return {};
}

std::string unspreadable(const ModelSpec& s, std::int64_t ranks) {
  if (s.family != Family::decoder || s.decoder->moe.experts == 0) return "a model without experts";
  const MoeSpec& moe = s.decoder->moe;
  if (moe.experts % ranks != 0) return fmt::format("{} experts per layer", moe.experts);
  if (s.decoder->adapted()) return "an adapter";
  if (s.decoder->latent()) return "latent attention";
  if (moe.shared_ffn > 0 && !moe.shared_factor) return "a shared expert without a factor";
  if (moe.scores != Scores::softmax || moe.groups > 1 || moe.factor != 1)
    return "a router with other scores, groups of experts or a factor";
  if (moe.bias) return "experts with biases";
  if (!moe.gate.plain()) return "experts whose gate has a limit";
  if (moe.in_out || moe.interleaved)
    return "experts whose weights are laid out as gpt_oss has them";
  if (moe.balance_loss > 0) return "a loss that balances experts";
  return {};
}

std::string unsplittable(const ModelSpec& s, std::int64_t ranks) {
  if (s.family == Family::list) return "a list of modules, whose attention is unknown";
  const Decoder& d = *decoder_of(s);
  if (d.moe.experts > 0) return "experts";
  if (d.adapted()) return "an adapter";
  if (d.attention.qkv != QkvLayout::separate || d.latent())
    return "queries, keys and values that do not come from three products";
  if (d.positions.kind != PositionKind::rotary) return "positions that are not rotary";
  if (d.attention.window > 0 && d.attention.window < s.sequence)
    return "attention that sees a window";
  if (d.attention.sinks || d.attention.softcap > 0)
    return "scores with sinks or a softcap, which transformers' attention \"sdpa\" does not have";
  const std::int64_t keys = kv_heads_of(s);
  if (s.heads % ranks != 0) return fmt::format("{} heads", s.heads);
  if (keys % ranks != 0 && ranks % keys != 0)
    return fmt::format("{} heads of keys and values", keys);
  if (s.sequence % ranks != 0) return fmt::format("samples of {} tokens", s.sequence);
  return {};
}

}  // namespace shardmark
