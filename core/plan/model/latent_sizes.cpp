// SPDX-License-Identifier: Apache-2.0
#include <core/plan/model/latent_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {

std::int64_t latent_kv_dim(const TransformerDims& d) {
  const LatentSpec& latent = d.decoder->attention.latent;
  return size_mul(d.heads, latent.plain_dim + latent.value_dim);
}

std::int64_t value_dim(const TransformerDims& d) {
  return d.decoder->latent() ? size_mul(d.heads, d.decoder->attention.latent.value_dim) : d.q_dim();
}

LatentSaved latent_saved(const TransformerDims& d, Offsets& o) {
  const LatentSpec& latent = d.decoder->attention.latent;
  const std::int64_t rows = d.rows();
  LatentSaved s;
  if (latent.q_rank > 0) {
    s.q_a = o.take(size_mul(rows, latent.q_rank));
    s.q_rstd = o.take_fp32(rows);
    s.q_a_out = o.take(size_mul(rows, latent.q_rank));
  }
  s.kv_a = o.take(size_mul(rows, latent.kv_rank + latent.rotary_dim));
  s.kv_rstd = o.take_fp32(rows);
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

}  // namespace shardmark
