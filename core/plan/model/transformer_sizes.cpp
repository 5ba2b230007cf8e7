// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <core/cache_line.hpp>
#include <core/error.hpp>
#include <core/plan/model/gpt2_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/llama_sizes.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {
namespace {

// What differs between the families of transformers, in bytes where it is a size.
struct FamilySizes {
  std::int64_t (*kv_heads)(const ModelSpec&);
  std::int64_t (*ffn)(const ModelSpec&);
  std::int64_t (*block_saved)(const TransformerDims&);
  std::int64_t (*block_forward)(const TransformerDims&, std::int64_t gemm_cap);
  std::int64_t (*block_backward)(const TransformerDims&, std::int64_t gemm_cap);
  bool norms_keep_means;  // LayerNorm does, RMSNorm does not
};

constexpr FamilySizes gpt2_sizes{[](const ModelSpec& s) { return s.heads; },
                                 [](const ModelSpec& s) { return size_mul(4, s.hidden); },
                                 [](const TransformerDims& d) { return gpt2_block_saved(d).bytes; },
                                 [](const TransformerDims& d, std::int64_t cap) {
                                   return gpt2_block_forward_workspace(d, cap).bytes;
                                 },
                                 [](const TransformerDims& d, std::int64_t cap) {
                                   return gpt2_block_backward_workspace(d, cap).bytes;
                                 },
                                 true};

constexpr FamilySizes llama_sizes{
    [](const ModelSpec& s) { return s.kv_heads; },
    [](const ModelSpec& s) { return s.ffn; },
    [](const TransformerDims& d) { return llama_block_saved(d).bytes; },
    [](const TransformerDims& d, std::int64_t cap) {
      return llama_block_forward_workspace(d, cap).bytes;
    },
    [](const TransformerDims& d, std::int64_t cap) {
      return llama_block_backward_workspace(d, cap).bytes;
    },
    false};

const FamilySizes& sizes_of(Family family) {
  switch (family) {
    case Family::gpt2: return gpt2_sizes;
    case Family::llama: return llama_sizes;
    case Family::list: break;
  }
  throw PlanError("model.family " + std::string(to_string(family)) + ": is not a transformer");
}

}  // namespace

TransformerDims transformer_dims(const ModelSpec& s, std::int64_t micro_batch, Dtype dtype) {
  size_mul(micro_batch, s.sequence);
  const FamilySizes& sizes = sizes_of(s.family);
  return {.layers = s.layers,
          .hidden = s.hidden,
          .heads = s.heads,
          .kv_heads = sizes.kv_heads(s),
          .ffn = sizes.ffn(s),
          .sequence = s.sequence,
          .vocab = s.vocab,
          .micro_batch = micro_batch,
          .tied_head = s.tied_head,
          .qkv_bias = s.qkv_bias,
          .family = s.family,
          .dtype = dtype};
}

HeadSaved head_saved(const TransformerDims& d) {
  const std::int64_t rows = d.rows();
  Offsets o(d.dtype);
  HeadSaved s;
  if (sizes_of(d.family).norms_keep_means) s.norm_mean = o.take_fp32(rows);
  s.norm_rstd = o.take_fp32(rows);
  s.norm = o.take(size_mul(rows, d.hidden));
  s.dlogits = o.take(size_mul(rows, d.vocab));
  s.row_loss = o.take_fp32(rows);
  s.bytes = o.end();
  return s;
}

AttentionTile attention_tile(const TransformerDims& d) {
  constexpr std::int64_t cached_elems = std::int64_t{1} << 18;  // 1 MiB of scores
  constexpr std::int64_t line_elems = cache_line_bytes / dtype_bytes(Dtype::fp32);
  AttentionTile t;
  t.query_rows = std::min<std::int64_t>(d.sequence, 64);
  t.score_ld =
      checked_add(round_up(d.sequence, line_elems, "model.sequence"), line_elems, "model.sequence");
  const std::int64_t head_elems = size_mul(t.query_rows, t.score_ld);
  t.heads = std::clamp<std::int64_t>(cached_elems / head_elems, 1, d.kv_heads);
  while (d.kv_heads % t.heads != 0) --t.heads;
  t.score_elems = size_mul(t.heads, head_elems);
  return t;
}

AttentionForwardScratch attention_forward_scratch(const TransformerDims& d, Offsets& o) {
  const std::int64_t scores = attention_tile(d).score_elems;
  AttentionForwardScratch w;
  w.scores = o.take_fp32(scores);
  w.probabilities = d.dtype == Dtype::fp32 ? w.scores : o.take(scores);
  return w;
}

AttentionBackwardScratch attention_backward_scratch(const TransformerDims& d, Offsets& o) {
  const AttentionTile tile = attention_tile(d);
  AttentionBackwardScratch w;
  w.scores = w.probabilities = o.take_fp32(tile.score_elems);
  w.dscores = w.dproduct = o.take_fp32(tile.score_elems);
  if (d.dtype != Dtype::fp32) {
    const std::int64_t sums = size_mul(d.sequence, tile.heads * d.head_dim());
    w.probabilities = o.take(tile.score_elems);
    w.dproduct = o.take(tile.score_elems);
    w.dkeys = o.take_fp32(sums);
    w.dvalues = o.take_fp32(sums);
  }
  w.delta = o.take_fp32(size_mul(d.rows(), d.heads));
  return w;
}

HeadForwardWorkspace head_forward_workspace(const TransformerDims&, std::int64_t gemm_cap_bytes) {
  HeadForwardWorkspace w;
  close_workspace(w, 0, gemm_cap_bytes);
  return w;
}

HeadBackwardWorkspace head_backward_workspace(const TransformerDims& d,
                                              std::int64_t gemm_cap_bytes) {
  Offsets o(d.dtype);
  HeadBackwardWorkspace w;
  w.dnorm = o.take_fp32(size_mul(d.rows(), d.hidden));
  close_workspace(w, o.end(), gemm_cap_bytes);
  return w;
}

std::int64_t saved_elems(const TransformerDims& d, UnitKind kind) {
  switch (kind) {
    case UnitKind::block: return sizes_of(d.family).block_saved(d) / dtype_bytes(d.dtype);
    case UnitKind::head: return head_saved(d).bytes / dtype_bytes(d.dtype);
    case UnitKind::embeddings:
    case UnitKind::list: return 0;
  }
  return 0;
}

std::int64_t workspace_bytes(const TransformerDims& d, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes) {
  const std::int64_t cap = gemm_scratch_cap_bytes;
  switch (kind) {
    case UnitKind::block:
      return kernel == Kernel::forward ? sizes_of(d.family).block_forward(d, cap)
                                       : sizes_of(d.family).block_backward(d, cap);
    case UnitKind::head:
      return kernel == Kernel::forward ? head_forward_workspace(d, cap).bytes
                                       : head_backward_workspace(d, cap).bytes;
    case UnitKind::embeddings:
    case UnitKind::list: return 0;
  }
  return 0;
}

}  // namespace shardmark
