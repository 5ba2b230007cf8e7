// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark {

std::int64_t pairs_of(const TransformerDims& d) {
  return size_mul(d.rows(), d.decoder->moe.per_token);
}

std::int64_t balance_elems(const TransformerDims& d, std::int64_t layers) {
  std::int64_t sparse = 0;
  for (std::int64_t l = 0; l < layers; ++l) sparse += has_experts(*d.decoder, l);
  return size_mul(sparse, 2 * d.decoder->moe.experts);
}

MixtureSaved mixture_saved(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  const std::int64_t rows = d.rows(), pairs = pairs_of(d);
  MixtureSaved s;
  s.probabilities = o.take_fp32(size_mul(rows, moe.experts));
  s.weights = o.take_fp32(pairs);
  s.chosen = o.take_fp32(pairs);  // integers of the same size
  s.places = o.take_fp32(pairs);
  s.sources = o.take_fp32(pairs);
  s.starts = o.take_fp32(moe.experts + 1);
  s.gate_up = o.take(size_mul(pairs, 2 * moe.ffn));
  if (moe.shared_ffn == 0) return s;
  s.shared_gate = o.take(size_mul(rows, moe.shared_ffn));
  s.shared_up = o.take(size_mul(rows, moe.shared_ffn));
  s.shared_out = o.take(size_mul(rows, d.hidden));
  s.shared_factor = o.take_fp32(rows);
  s.sum = o.take(size_mul(rows, d.hidden));
  return s;
}

MixtureForwardWorkspace mixture_forward_workspace(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  MixtureForwardWorkspace w;
  Offsets shared = o;
  w.rows = o.take(size_mul(pairs_of(d), d.hidden));
  w.act = o.take(size_mul(pairs_of(d), moe.ffn));
  w.shared_act = shared.take(size_mul(d.rows(), moe.shared_ffn));
  if (shared.end() > o.end()) o = shared;
  return w;
}

MixtureBackwardWorkspace mixture_backward_workspace(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  const std::int64_t rows = d.rows(), pairs = pairs_of(d);
  MixtureBackwardWorkspace w;
  w.dweights = o.take_fp32(pairs);
  w.dlogits = o.take(size_mul(rows, moe.experts));
  if (moe.balance_loss > 0) w.dbalance = o.take_fp32(moe.experts);
  if (moe.shared_ffn > 0) {
    w.dfactor = o.take_fp32(rows);
    w.dshared = o.take(size_mul(rows, d.hidden));
  }
  // The shared expert runs backward after the others.
  Offsets shared = o;
  w.rows = o.take(size_mul(pairs, d.hidden));
  w.act = o.take(size_mul(pairs, moe.ffn));
  w.dgate_up = o.take(size_mul(pairs, 2 * moe.ffn));
  w.shared_act = shared.take(size_mul(rows, moe.shared_ffn));
  w.dshared_gate = shared.take(size_mul(rows, moe.shared_ffn));
  w.dshared_up = shared.take(size_mul(rows, moe.shared_ffn));
  if (shared.end() > o.end()) o = shared;
  return w;
}

}  // namespace shardmark
