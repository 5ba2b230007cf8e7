// SPDX-License-Identifier: Apache-2.0
// Which models the axes besides data can divide (docs/axes.md).
#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {
namespace {

// Why the blocks cannot be divided, whatever their sizes are.
std::string undividable_blocks(const Decoder& d, bool experts_too) {
  if (d.adapted()) return "an adapter";
  Decoder dense = d;
  if (experts_too) dense.moe = {};
  if (!is_plain(dense) || d.attention.qkv != QkvLayout::separate || !d.mlp.gated || d.mlp.joined)
    return fmt::format("blocks of another kind than {}'s", experts_too ? "Mixtral" : "Llama");
  if (experts_too && (some_lack_experts(d) || d.moe.shared_ffn > 0))
    return "layers without experts, or with a shared one";
  if (d.attention.bias || d.mlp.bias) return "biases of the products that ranks add up";
  if (d.ends.head_bias || d.ends.logits_factor != 1 || d.ends.logits_softcap > 0)
    return "a head with a bias, a factor or a softcap";
  return {};
}

}  // namespace

std::string undividable(const ModelSpec& s, std::int64_t ranks, bool experts_too) {
  if (s.family == Family::list) return "a list of modules, whose products are unknown";
  if (s.family == Family::gpt2) return "the family gpt2, for which AutoTP has no policy";
  if (std::string what = undividable_blocks(*decoder_of(s), experts_too); !what.empty())
    return what;
  if (s.tied_head) return "a head tied to the embedding, which AutoTP divides by the vocabulary";
  const auto divides = [&](std::int64_t count) { return count % ranks == 0; };
  if (!divides(kv_heads_of(s))) return fmt::format("{} heads of keys and values", kv_heads_of(s));
  if (!divides(s.heads)) return fmt::format("{} heads", s.heads);
  if (experts_too) return {};
  if (!divides(ffn_of(s))) return fmt::format("a feed-forward width of {}", ffn_of(s));
  if (!divides(s.vocab)) return fmt::format("a vocabulary of {}", s.vocab);
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
  if (!is_plain(d) || d.attention.qkv != QkvLayout::separate ||
      d.positions.kind != PositionKind::rotary)
    return "blocks of another kind than Llama's";
  if (d.attention.window > 0) return "attention that sees a window";
  const std::int64_t keys = kv_heads_of(s);
  if (s.heads % ranks != 0) return fmt::format("{} heads", s.heads);
  if (keys % ranks != 0 && ranks % keys != 0)
    return fmt::format("{} heads of keys and values", keys);
  if (s.sequence % ranks != 0) return fmt::format("samples of {} tokens", s.sequence);
  return {};
}

}  // namespace shardmark
