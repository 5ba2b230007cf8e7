// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/llama_sizes.hpp>

namespace shardmark {

LlamaBlockSaved llama_block_saved(const TransformerDims& d) {
  const std::int64_t rows = d.rows(), rh = size_mul(rows, d.hidden);
  const std::int64_t kv = size_mul(rows, d.kv_dim()), ffn = size_mul(rows, d.ffn);
  Offsets o(d.dtype);
  LlamaBlockSaved s;
  s.norm1_rstd = o.take_fp32(rows);
  s.norm1 = o.take(rh);
  s.q = o.take(rh);
  s.k = o.take(kv);
  s.v = o.take(kv);
  s.attention = o.take(rh);
  s.logsumexp = o.take_fp32(size_mul(rows, d.heads));
  s.x_mid = o.take(rh);
  s.norm2_rstd = o.take_fp32(rows);
  s.norm2 = o.take(rh);
  s.gate = o.take(ffn);
  s.up = o.take(ffn);
  s.bytes = o.end();
  return s;
}

LlamaBlockForwardWorkspace llama_block_forward_workspace(const TransformerDims& d,
                                                         std::int64_t gemm_cap_bytes) {
  Offsets o(d.dtype);
  LlamaBlockForwardWorkspace w;
  Offsets attention = o;
  w.act = o.take(size_mul(d.rows(), d.ffn));
  w.attention = attention_forward_scratch(d, attention);
  close_workspace(w, std::max(attention.end(), o.end()), gemm_cap_bytes);
  return w;
}

LlamaBlockBackwardWorkspace llama_block_backward_workspace(const TransformerDims& d,
                                                           std::int64_t gemm_cap_bytes) {
  const std::int64_t rh = size_mul(d.rows(), d.hidden), kv = size_mul(d.rows(), d.kv_dim());
  const std::int64_t ffn = size_mul(d.rows(), d.ffn);
  LlamaBlockBackwardWorkspace w;
  Offsets mlp(d.dtype), attention(d.dtype);
  w.dgate = mlp.take(ffn);
  w.dup = mlp.take(ffn);
  w.dq = attention.take(rh);
  w.dk = attention.take(kv);
  w.dv = attention.take(kv);
  Offsets o(d.dtype, std::max(mlp.end(), attention.end()));
  attention = o;
  w.act = o.take(ffn);
  w.dnorm = w.dattention = attention.take_fp32(rh);
  w.attention = attention_backward_scratch(d, attention);
  close_workspace(w, std::max(attention.end(), o.end()), gemm_cap_bytes);
  return w;
}

}  // namespace shardmark
