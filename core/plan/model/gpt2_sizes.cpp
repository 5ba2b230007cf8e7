// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/model/gpt2_sizes.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {

Gpt2BlockSaved gpt2_block_saved(const TransformerDims& d) {
  const std::int64_t rows = d.rows(), rh = size_mul(rows, d.hidden);
  Offsets o(d.dtype);
  Gpt2BlockSaved s;
  s.ln1_mean = o.take_fp32(rows);
  s.ln1_rstd = o.take_fp32(rows);
  s.norm1 = o.take(rh);
  s.qkv = o.take(size_mul(3, rh));
  s.attention = o.take(rh);
  s.logsumexp = o.take_fp32(size_mul(rows, d.heads));
  s.x_mid = o.take(rh);
  s.ln2_mean = o.take_fp32(rows);
  s.ln2_rstd = o.take_fp32(rows);
  s.norm2 = o.take(rh);
  s.fc = o.take(size_mul(rows, d.ffn));
  s.bytes = o.end();
  return s;
}

Gpt2BlockForwardWorkspace gpt2_block_forward_workspace(const TransformerDims& d,
                                                       std::int64_t gemm_cap_bytes) {
  Offsets o(d.dtype);
  Gpt2BlockForwardWorkspace w;
  Offsets attention = o;
  w.act = o.take(size_mul(d.rows(), d.ffn));
  w.attention = attention_forward_scratch(d, attention);
  close_workspace(w, std::max(attention.end(), o.end()), gemm_cap_bytes);
  return w;
}

Gpt2BlockBackwardWorkspace gpt2_block_backward_workspace(const TransformerDims& d,
                                                         std::int64_t gemm_cap_bytes) {
  Offsets o(d.dtype);
  Gpt2BlockBackwardWorkspace w;
  w.dwide = o.take(size_mul(d.rows(), d.ffn));
  Offsets attention = o;
  w.act = o.take(size_mul(d.rows(), d.ffn));
  w.dnarrow = attention.take(size_mul(d.rows(), d.hidden));
  w.attention = attention_backward_scratch(d, attention);
  close_workspace(w, std::max(attention.end(), o.end()), gemm_cap_bytes);
  return w;
}

}  // namespace shardmark
