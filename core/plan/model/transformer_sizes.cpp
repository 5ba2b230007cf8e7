// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/cache_line.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/block_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {
TransformerDims transformer_dims(const ModelSpec& s, std::int64_t micro_batch, Dtype dtype) {
  size_mul(micro_batch, s.sequence);
  return {.layers = s.layers,
          .hidden = s.hidden,
          .heads = s.part.share(kv_heads_of(s)) * (s.heads / kv_heads_of(s)),
          .kv_heads = s.part.share(kv_heads_of(s)),
          .ffn = s.part.share(ffn_of(s)),
          .sequence = s.sequence / s.sequence_part.ranks,
          .vocab = s.vocab,
          .micro_batch = micro_batch,
          .dtype = dtype,
          .head_channels = head_dim_of(s),
          .part = s.part,
          .sequence_part = s.sequence_part,
          .expert_part = s.expert_part,
          .head_part = cut_of(s, Role::head) == ProductCut::none ? AxisPart{} : s.part,
          .decoder = decoder_of(s)};
}

TransformerDims attention_dims(const TransformerDims& dims) {
  TransformerDims d = dims;
  const std::int64_t ranks = dims.sequence_part.ranks;
  d.sequence = size_mul(dims.sequence, ranks);
  d.heads /= ranks;
  d.kv_heads = dims.sequence_part.most(dims.kv_heads);
  d.head_channels = dims.head_dim();
  d.sequence_part = {};
  return d;
}

TransformerDims dims_of_layer(const TransformerDims& dims, std::int64_t layer) {
  TransformerDims d = dims;
  const AttentionSpec& a = d.decoder->attention;
  const PositionSpec& p = d.decoder->positions;
  const bool windowed = in_pattern(a.windowed, layer) && a.window < d.sequence;
  d.rules = {.window = windowed ? a.window : 0,
             .scale = a.scale,
             .softcap = a.softcap,
             .alibi = p.kind == PositionKind::alibi ? p.alibi_factor : 0,
             .sinks = a.sinks};
  d.sparse = has_experts(*d.decoder, layer);
  for (const AdapterTarget& t : d.decoder->adapter.targets) {
    d.low_rank[t.role] = low_rank_of(*d.decoder, t.role, layer);
    d.largest_rank = std::max(d.largest_rank, d.low_rank[t.role].rank);
  }
  return d;
}

NormSaved norm_saved(const TransformerDims& d, Offsets& o, std::int64_t rows) {
  NormSaved s;
  if (d.decoder->norm.kind == NormKind::layer) s.mean = o.take_fp32(rows);
  s.rstd = o.take_fp32(rows);
  return s;
}

EmbeddingSaved embedding_saved(const TransformerDims& d) {
  EmbeddingSaved s;
  if (!d.decoder->ends.embedding_norm) return s;
  Offsets o(d.dtype);
  s.embedding = o.take(size_mul(d.rows(), d.hidden));
  s.norm = {o.take_fp32(d.rows()), o.take_fp32(d.rows())};
  s.bytes = o.end();
  return s;
}

HeadSaved head_saved(const TransformerDims& d) {
  const std::int64_t rows = d.rows();
  Offsets o(d.dtype);
  HeadSaved s;
  s.norm = norm_saved(d, o, rows);
  s.norm_out = o.take(size_mul(rows, d.hidden));
  s.dlogits = o.take(size_mul(rows, d.gathered_vocab()));
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
  t.heads = std::min(std::max<std::int64_t>(cached_elems / head_elems, 1), d.kv_heads);
  while (t.heads > 0 && d.kv_heads % t.heads != 0) --t.heads;
  t.score_elems = size_mul(t.heads, head_elems);
  return t;
}

AttentionScratch attention_forward_scratch(const TransformerDims& d, Offsets& o) {
  const std::int64_t scores = attention_tile(d).score_elems;
  AttentionScratch w;
  w.scores = o.take_fp32(scores);
  w.probabilities = d.dtype == Dtype::fp32 ? w.scores : o.take(scores);
  return w;
}

AttentionScratch attention_backward_scratch(const TransformerDims& d, Offsets& o) {
  const AttentionTile tile = attention_tile(d);
  AttentionScratch w;
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

std::int64_t head_gradient_bytes(const TransformerDims& d) {
  Offsets o(d.dtype);
  o.take_fp32(size_mul(d.rows(), d.hidden));
  return o.end();
}

std::int64_t saved_elems(const TransformerDims& d, UnitKind kind) {
  const std::int64_t bytes = kind == UnitKind::block        ? block_saved(d).bytes
                             : kind == UnitKind::head       ? head_saved(d).bytes
                             : kind == UnitKind::embeddings ? embedding_saved(d).bytes
                                                            : 0;
  return bytes / dtype_bytes(d.dtype);
}

std::int64_t workspace_bytes(const TransformerDims& d, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes) {
  const bool forward = kernel == Kernel::forward;
  if (kind != UnitKind::block && kind != UnitKind::head) return 0;
  const std::int64_t fixed = kind == UnitKind::head ? (forward ? 0 : head_gradient_bytes(d))
                             : forward              ? block_forward_workspace(d).gemm
                                                    : block_backward_workspace(d).gemm;
  return checked_add(fixed, gemm_scratch_cap_bytes, "workspace");
}

}  // namespace shardmark
