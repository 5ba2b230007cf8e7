// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/model/block_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {
namespace {

bool separate(const TransformerDims& d) {
  return d.decoder->attention.qkv == QkvLayout::separate;
}

using Places = EnumArray<Value, std::int64_t>;

void take(const TransformerDims& d, Offsets& o, Places& places, Value value) {
  places[value] = o.take(size_mul(d.rows(), row_elems(d, value)));
}

// The three places of q, k and v: matrices of their own, or neighbours in each row. Without norms
// of q and k they are made there.
void take_qkv(const TransformerDims& d, Offsets& o, Places& at) {
  const std::int64_t elem = dtype_bytes(d.dtype);
  take(d, o, at, Value::q);
  at[Value::k] = at[Value::q] + d.q_dim() * elem;
  at[Value::v] = at[Value::k] + d.kv_dim() * elem;
  if (separate(d))
    for (const Value x : {Value::k, Value::v})
      at[x] = o.take(size_mul(d.rows(), d.exchanged_kv_dim()));
  at[Value::q_raw] = at[Value::q];
  at[Value::k_raw] = at[Value::k];
}

void take_gate(const TransformerDims& d, Offsets& o, Places& at) {
  take(d, o, at, Value::gate);
  if (d.decoder->mlp.joined)
    at[Value::up] = at[Value::gate] + d.ffn * dtype_bytes(d.dtype);
  else if (d.decoder->mlp.gated)
    take(d, o, at, Value::up);
}

// Whether the gradient of a sublayer's output differs from that of the residual stream.
bool has_own_output_gradient(const Decoder& decoder) {
  return decoder.norms_after() || decoder.block.residual_factor != 1;
}

}  // namespace

DataFlow flow_of(const Decoder& d, Role role) {
  using enum Value;
  const Value first = d.norms_before() ? norm1 : in;
  const Value second = !d.norms_before()                     ? mid
                       : d.block.kind == BlockKind::parallel ? norm1
                                                             : norm2;
  switch (role) {
    case Role::norm1: return {in, norm1};
    case Role::qkv: return {first, q};
    case Role::q: return {first, q_raw};
    case Role::k: return {first, k_raw};
    case Role::v: return {first, v};
    case Role::q_a: return {first, q_a};
    case Role::q_a_norm: return {q_a, q_latent};
    case Role::q_b: return {q_latent, q_raw};
    case Role::kv_a: return {first, kv_a};
    case Role::kv_a_norm: return {kv_a, kv_latent};
    case Role::kv_b: return {kv_latent, kv_b};
    case Role::q_norm: return {q_raw, q};
    case Role::k_norm: return {k_raw, k};
    case Role::attn_proj: return {attention, attn_out};
    case Role::post_norm1: return {attn_out, mid};
    case Role::norm2: return {d.parallel() ? in : mid, norm2};
    case Role::fc:
    case Role::gate: return {second, gate};
    case Role::up: return {second, up};
    case Role::mlp_proj: return {act, mlp_out};
    case Role::router:
    case Role::shared_gate:
    case Role::shared_up: return {second, act};
    case Role::shared_down: return {act, act};
    case Role::experts:
    case Role::shared_router: return {second, mlp_out};
    case Role::post_norm2: return {mlp_out, out};
    case Role::embedding_norm:
    case Role::head: return {out, out};
    default: return {in, out};
  }
}

std::int64_t row_elems(const TransformerDims& d, Value value) {
  const LatentSpec& latent = d.decoder->attention.latent;
  switch (value) {
    case Value::q_a:
    case Value::q_latent: return latent.q_rank;
    case Value::kv_a: return latent.kv_rank + latent.rotary_dim;
    case Value::kv_latent: return latent.kv_rank;
    case Value::kv_b: return size_mul(d.heads, latent.plain_dim + latent.value_dim);
    case Value::q_raw:
    case Value::context: return d.q_dim();
    case Value::q:
      return separate(d) ? d.q_dim() : size_mul(d.heads + 2 * d.kv_heads, d.head_dim());
    case Value::k_raw:
    case Value::k:
    case Value::v: return separate(d) ? d.kv_dim() : row_elems(d, Value::q);
    case Value::attention:
      return d.decoder->latent() ? size_mul(d.heads, latent.value_dim) : d.q_dim();
    case Value::gate:
    case Value::up: return d.decoder->mlp.joined ? size_mul(2, d.ffn) : d.ffn;
    case Value::act: return d.ffn;
    default: return d.hidden;
  }
}

Width product_width(const TransformerDims& d, Role role) {
  const DataFlow flow = flow_of(*d.decoder, role);
  return {row_elems(d, flow.makes), row_elems(d, flow.reads)};
}

std::int64_t norm_columns(const TransformerDims& d, Role role) {
  const bool of_heads = role == Role::q_norm || role == Role::k_norm;
  return of_heads && d.decoder->norm.qk == QkNorm::head
             ? d.head_dim()
             : row_elems(d, flow_of(*d.decoder, role).makes);
}

Dtype gradient_type(const TransformerDims& d, Value value) {
  const bool of_norm =
      value == Value::norm1 || value == Value::norm2 || value == Value::in || value == Value::mid;
  const bool two_halves = d.decoder->mlp.gated && !d.decoder->mlp.joined;
  const bool shared = d.decoder->block.kind == BlockKind::parallel;
  const bool sum = separate(d) || two_halves || shared || d.sparse || d.largest_rank > 0;
  return of_norm && sum ? Dtype::fp32 : d.dtype;
}

BlockSaved block_saved(const TransformerDims& d) {
  const Decoder& decoder = *d.decoder;
  const std::int64_t rows = d.rows();
  Offsets o(d.dtype);
  BlockSaved s;
  const auto keep = [&](Value value) { take(d, o, s.at, value); };
  const auto keep_norm = [&](Role norm) {
    const std::int64_t elems = row_elems(d, flow_of(decoder, norm).makes);
    s.norms[norm] = norm_saved(d, o, size_mul(rows, elems / norm_columns(d, norm)));
  };
  if (decoder.norms_before()) {
    keep_norm(Role::norm1);
    keep(Value::norm1);
  }
  if (decoder.latent()) {
    keep(Value::q_a);
    if (decoder.attention.latent.q_rank > 0) keep_norm(Role::q_a_norm);
    keep(Value::q_latent);
    keep(Value::kv_a);
    keep_norm(Role::kv_a_norm);
    keep(Value::kv_latent);
  }
  take_qkv(d, o, s.at);
  if (decoder.norm.qk != QkNorm::none) {
    keep_norm(Role::q_norm);
    keep_norm(Role::k_norm);
    keep(Value::q_raw);
    keep(Value::k_raw);
  }
  keep(Value::attention);
  s.at[Value::context] = s.at[Value::attention];
  if (d.sequence_part.cuts() || decoder.latent()) keep(Value::context);
  s.logsumexp = o.take_fp32(size_mul(rows, d.heads));
  if (decoder.attention.sinks) s.sinks = o.take_fp32(d.heads);
  if (decoder.norms_after()) {
    keep(Value::attn_out);
    keep_norm(Role::post_norm1);
  }
  keep(Value::mid);
  if (!decoder.norms_after()) s.at[Value::attn_out] = s.at[Value::mid];
  if (decoder.norms_before() && decoder.block.kind != BlockKind::parallel) {
    keep_norm(Role::norm2);
    keep(Value::norm2);
  }
  if (d.sparse)
    s.mixture = mixture_saved(d, o);
  else
    take_gate(d, o, s.at);
  if (decoder.norms_after()) {
    keep(Value::mlp_out);
    keep_norm(Role::post_norm2);
  }
  for (const AdapterTarget& t : decoder.adapter.targets)
    if (d.adapts(t.role)) s.low_rank[t.role] = o.take(size_mul(rows, d.low_rank[t.role].rank));
  s.bytes = o.end();
  return s;
}

BlockWorkspace block_forward_workspace(const TransformerDims& d) {
  Offsets o(d.dtype);
  BlockWorkspace w;
  Offsets attention = o, grouped = o;
  if (d.sparse)
    w.mixture = mixture_forward_workspace(d, o);
  else
    w.act = o.take(size_mul(d.rows(), d.ffn));
  w.attention = attention_forward_scratch(attention_dims(d), attention);
  if (d.decoder->attention.qkv == QkvLayout::grouped)
    w.grouped = grouped.take(size_mul(d.rows(), row_elems(d, Value::q)));
  if (d.decoder->latent()) w.grouped = grouped.take(size_mul(d.rows(), row_elems(d, Value::kv_b)));
  w.gemm = std::max({attention.end(), o.end(), grouped.end()});
  return w;
}

BlockWorkspace block_backward_workspace(const TransformerDims& d) {
  const Decoder& decoder = *d.decoder;
  const std::int64_t rh = size_mul(d.rows(), d.hidden), rq = size_mul(d.rows(), d.q_dim());
  BlockWorkspace w;
  Offsets kept(d.dtype);
  const auto take_dnorm = [&](Offsets& o, std::int64_t elems) {
    return gradient_type(d, Value::norm1) == Dtype::fp32 ? o.take_fp32(elems) : o.take(elems);
  };
  if (d.largest_rank > 0) w.dlow_rank = kept.take(size_mul(d.rows(), d.largest_rank));
  if (decoder.attention.sinks) w.dsinks = kept.take_fp32(d.heads);
  if (decoder.latent())
    for (const Value x : {Value::q_a, Value::q_latent, Value::kv_a, Value::kv_latent, Value::kv_b})
      take(d, kept, w.d, x);
  if (has_own_output_gradient(decoder)) w.dsub = kept.take(rh);
  if (decoder.parallel()) w.d[Value::norm1] = w.d[Value::norm2] = take_dnorm(kept, rh);
  if (decoder.block.kind == BlockKind::parallel_two_norms) {
    w.dside = kept.take(rh);
    w.d[Value::norm2] = take_dnorm(kept, rh);
  }
  Offsets mlp = kept, attention = kept;
  if (d.sparse)
    w.mixture = mixture_backward_workspace(d, mlp);
  else
    take_gate(d, mlp, w.d);
  take_qkv(d, attention, w.d);
  Offsets o(d.dtype, std::max(mlp.end(), attention.end()));
  attention = o;
  if (!d.sparse) w.act = o.take(size_mul(d.rows(), d.ffn));
  if (decoder.parallel())
    w.d[Value::context] = attention.take(rq);
  else
    w.d[Value::norm1] = w.d[Value::norm2] = w.d[Value::context] =
        take_dnorm(attention, std::max(rh, rq));
  if (!decoder.norms_before()) w.d[Value::in] = w.d[Value::mid] = w.d[Value::norm1];
  // The gradient of values without the zeros that attention needs after them has the place of one
  // that is made later.
  w.d[Value::attention] = w.d[decoder.latent() ? Value::kv_b : Value::context];
  w.d[Value::act] = decoder.mlp.joined ? w.act : w.d[Value::gate];
  Offsets grouped = attention;
  w.attention = attention_backward_scratch(attention_dims(d), attention);
  if (decoder.attention.qkv == QkvLayout::grouped)
    w.grouped = grouped.take(size_mul(d.rows(), row_elems(d, Value::q)));
  w.gemm = std::max({attention.end(), o.end(), grouped.end()});
  return w;
}

}  // namespace shardmark
