// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/model/block_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {
namespace {

bool separate(const TransformerDims& d) {
  return d.decoder->attention.qkv == QkvLayout::separate;
}

// The three places of q, k and v: matrices of their own, or neighbours in each row.
void take_qkv(const TransformerDims& d, Offsets& o, std::int64_t& q, std::int64_t& k,
              std::int64_t& v) {
  const std::int64_t rows = d.rows(), elem = dtype_bytes(d.dtype);
  if (separate(d)) {
    q = o.take(size_mul(rows, d.q_dim()));
    k = o.take(size_mul(rows, d.exchanged_kv_dim()));
    v = o.take(size_mul(rows, d.exchanged_kv_dim()));
  } else {
    q = o.take(size_mul(rows, q_stride(d)));
    k = q + d.q_dim() * elem;
    v = k + d.kv_dim() * elem;
  }
}

void take_gate(const TransformerDims& d, Offsets& o, std::int64_t& gate, std::int64_t& up) {
  gate = o.take(size_mul(d.rows(), gate_stride(d)));
  if (d.decoder->mlp.joined)
    up = gate + d.ffn * dtype_bytes(d.dtype);
  else if (d.decoder->mlp.gated)
    up = o.take(size_mul(d.rows(), d.ffn));
}

LatentSaved latent_saved(const TransformerDims& d, Offsets& o) {
  const LatentSpec& latent = d.decoder->attention.latent;
  const std::int64_t rows = d.rows();
  LatentSaved s;
  if (latent.q_rank > 0) {
    s.q_a = o.take(size_mul(rows, latent.q_rank));
    s.q_norm = norm_saved(d, o, rows);
    s.q_a_out = o.take(size_mul(rows, latent.q_rank));
  }
  s.kv_a = o.take(size_mul(rows, latent.kv_rank + latent.rotary_dim));
  s.kv_norm = norm_saved(d, o, rows);
  s.kv_a_out = o.take(size_mul(rows, latent.kv_rank));
  return s;
}

LatentWorkspace latent_workspace(const TransformerDims& d, Offsets& o) {
  const LatentSpec& latent = d.decoder->attention.latent;
  const std::int64_t rows = d.rows();
  LatentWorkspace w;
  w.dq_a = o.take(size_mul(rows, latent.q_rank));
  w.dq_a_out = o.take(size_mul(rows, latent.q_rank));
  w.dkv_a = o.take(size_mul(rows, latent.kv_rank + latent.rotary_dim));
  w.dkv_a_out = o.take(size_mul(rows, latent.kv_rank));
  w.dkv_b = o.take(size_mul(rows, latent_kv_dim(d)));
  return w;
}

}  // namespace

Width product_width(const TransformerDims& d, Role role) {
  const LatentSpec& latent = d.decoder->attention.latent;
  switch (role) {
    case Role::qkv: return {q_stride(d), d.hidden};
    case Role::q: return {d.q_dim(), d.hidden};
    case Role::k:
    case Role::v: return {d.kv_dim(), d.hidden};
    case Role::fc: return {gate_stride(d), d.hidden};
    case Role::gate:
    case Role::up: return {d.ffn, d.hidden};
    case Role::attn_proj: return {d.hidden, value_dim(d)};
    case Role::q_a: return {latent.q_rank, d.hidden};
    case Role::q_b: return {d.q_dim(), latent.q_rank};
    case Role::kv_a: return {latent.kv_rank + latent.rotary_dim, d.hidden};
    case Role::kv_b: return {latent_kv_dim(d), latent.kv_rank};
    default: return {d.hidden, d.ffn};
  }
}

std::int64_t q_stride(const TransformerDims& d) {
  return separate(d) ? d.q_dim() : size_mul(d.heads + 2 * d.kv_heads, d.head_dim());
}
std::int64_t kv_stride(const TransformerDims& d) {
  return separate(d) ? d.kv_dim() : q_stride(d);
}
std::int64_t gate_stride(const TransformerDims& d) {
  return d.decoder->mlp.joined ? size_mul(2, d.ffn) : d.ffn;
}

std::int64_t latent_kv_dim(const TransformerDims& d) {
  const LatentSpec& latent = d.decoder->attention.latent;
  return size_mul(d.heads, latent.plain_dim + latent.value_dim);
}

std::int64_t value_dim(const TransformerDims& d) {
  return d.decoder->latent() ? size_mul(d.heads, d.decoder->attention.latent.value_dim) : d.q_dim();
}

Dtype dnorm_type(const TransformerDims& d) {
  const bool two_halves = d.decoder->mlp.gated && !d.decoder->mlp.joined;
  const bool shared = d.decoder->block.kind == BlockKind::parallel;
  return separate(d) || two_halves || shared || d.sparse || d.largest_rank > 0 ? Dtype::fp32
                                                                               : d.dtype;
}

bool has_own_output_gradient(const Decoder& decoder) {
  return decoder.norms_after() || decoder.block.residual_factor != 1;
}

BlockSaved block_saved(const TransformerDims& d) {
  const Decoder& decoder = *d.decoder;
  const std::int64_t rows = d.rows(), rh = size_mul(rows, d.hidden);
  const std::int64_t of_heads = decoder.norm.qk == QkNorm::head ? d.heads : 1;
  const std::int64_t of_keys = decoder.norm.qk == QkNorm::head ? d.kv_heads : 1;
  Offsets o(d.dtype);
  BlockSaved s;
  if (decoder.norms_before()) {
    s.norm1 = norm_saved(d, o, rows);
    s.norm1_out = o.take(rh);
  }
  if (decoder.latent()) s.latent = latent_saved(d, o);
  take_qkv(d, o, s.q, s.k, s.v);
  s.q_raw = s.q, s.k_raw = s.k;
  if (decoder.norm.qk != QkNorm::none) {
    s.q_norm = norm_saved(d, o, size_mul(rows, of_heads));
    s.k_norm = norm_saved(d, o, size_mul(rows, of_keys));
    s.q_raw = o.take(size_mul(rows, d.q_dim()));
    s.k_raw = o.take(size_mul(rows, d.kv_dim()));
  }
  s.attention = s.context = o.take(size_mul(rows, value_dim(d)));
  if (d.sequence_part.cuts() || decoder.latent()) s.context = o.take(size_mul(rows, d.q_dim()));
  s.logsumexp = o.take_fp32(size_mul(rows, d.heads));
  if (decoder.attention.sinks) s.sinks = o.take_fp32(d.heads);
  if (decoder.norms_after()) {
    s.attn_out = o.take(rh);
    s.post_norm1 = norm_saved(d, o, rows);
  }
  s.x_mid = o.take(rh);
  if (decoder.norms_before() && decoder.block.kind != BlockKind::parallel) {
    s.norm2 = norm_saved(d, o, rows);
    s.norm2_out = o.take(rh);
  } else {
    s.norm2_out = s.norm1_out;
  }
  if (d.sparse)
    s.mixture = mixture_saved(d, o);
  else
    take_gate(d, o, s.gate, s.up);
  if (decoder.norms_after()) {
    s.mlp_out = o.take(rh);
    s.post_norm2 = norm_saved(d, o, rows);
  }
  for (const AdapterTarget& t : decoder.adapter.targets)
    if (d.adapts(t.role)) s.low_rank[t.role] = o.take(size_mul(rows, d.low_rank[t.role].rank));
  s.bytes = o.end();
  return s;
}

BlockForwardWorkspace block_forward_workspace(const TransformerDims& d) {
  Offsets o(d.dtype);
  BlockForwardWorkspace w;
  Offsets attention = o, grouped = o;
  if (d.sparse)
    w.mixture = mixture_forward_workspace(d, o);
  else
    w.act = o.take(size_mul(d.rows(), d.ffn));
  w.attention = attention_forward_scratch(attention_dims(d), attention);
  if (d.decoder->attention.qkv == QkvLayout::grouped)
    w.grouped = grouped.take(size_mul(d.rows(), q_stride(d)));
  if (d.decoder->latent()) w.grouped = grouped.take(size_mul(d.rows(), latent_kv_dim(d)));
  w.gemm = std::max({attention.end(), o.end(), grouped.end()});
  return w;
}

BlockBackwardWorkspace block_backward_workspace(const TransformerDims& d) {
  const Decoder& decoder = *d.decoder;
  const std::int64_t rh = size_mul(d.rows(), d.hidden), rq = size_mul(d.rows(), d.q_dim());
  BlockBackwardWorkspace w;
  Offsets kept(d.dtype);
  const auto take_dnorm = [&](Offsets& o, std::int64_t elems) {
    return dnorm_type(d) == Dtype::fp32 ? o.take_fp32(elems) : o.take(elems);
  };
  if (d.largest_rank > 0) w.dlow_rank = kept.take(size_mul(d.rows(), d.largest_rank));
  if (decoder.attention.sinks) w.dsinks = kept.take_fp32(d.heads);
  if (decoder.latent()) w.latent = latent_workspace(d, kept);
  if (has_own_output_gradient(decoder)) w.dsub = kept.take(rh);
  if (decoder.parallel()) w.dnorm1 = w.dnorm2 = take_dnorm(kept, rh);
  if (decoder.block.kind == BlockKind::parallel_two_norms) {
    w.dside = kept.take(rh);
    w.dnorm2 = take_dnorm(kept, rh);
  }
  Offsets mlp = kept, attention = kept;
  if (d.sparse)
    w.mixture = mixture_backward_workspace(d, mlp);
  else
    take_gate(d, mlp, w.dgate, w.dup);
  take_qkv(d, attention, w.dq, w.dk, w.dv);
  Offsets o(d.dtype, std::max(mlp.end(), attention.end()));
  attention = o;
  if (!d.sparse) w.act = o.take(size_mul(d.rows(), d.ffn));
  if (decoder.parallel())
    w.dattention = attention.take(rq);
  else
    w.dnorm1 = w.dnorm2 = w.dattention = take_dnorm(attention, std::max(rh, rq));
  Offsets grouped = attention;
  w.attention = attention_backward_scratch(attention_dims(d), attention);
  if (decoder.attention.qkv == QkvLayout::grouped)
    w.grouped = grouped.take(size_mul(d.rows(), q_stride(d)));
  w.gemm = std::max({attention.end(), o.end(), grouped.end()});
  return w;
}

}  // namespace shardmark
