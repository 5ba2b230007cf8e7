// SPDX-License-Identifier: Apache-2.0
#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/latent_call.hpp>

namespace shardmark {

Norm LatentCall::norm(std::int64_t columns, std::int64_t rstd, std::int64_t x_stride) const {
  NormSpec spec = c_.decoder.norm;
  if (spec_.eps > 0) spec.eps = spec_.eps;
  return {c_.ctx, spec, c_.rows, columns, nullptr, c_.saved_fp32(rstd), x_stride};
}

void LatentCall::spread(ConstStored made) const {
  const Stored kv_a = c_.saved(s_.latent.kv_a);
  const RotatedHeads shared = shared_keys(kv_a);
  if (rotates(c_)) rotary_forward(c_.ctx, c_.dims, shared, rotation_of(c_.dims, c_.b.layer));
  spread_latent(c_.ctx, c_.dims, {made, shared.first, shared.stride}, c_.saved(s_.k),
                c_.saved(s_.v));
}

void LatentCall::collect(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
  const RotatedHeads shared = shared_keys(scratch[w.latent.dkv_a]);
  collect_latent(c_.ctx, c_.dims, scratch[w.dk], scratch[w.dv],
                 {scratch[w.latent.dkv_b], shared.first, shared.stride});
  if (rotates(c_)) rotary_backward(c_.ctx, c_.dims, shared, rotation_of(c_.dims, c_.b.layer));
}

}  // namespace shardmark
