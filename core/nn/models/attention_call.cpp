// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/latent_call.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {

bool rotates(const ModuleCall& call) {
  return call.decoder.positions.kind == PositionKind::rotary &&
         in_pattern(call.decoder.positions.rotates, call.b.layer);
}

const float* AttentionCall::sinks() const {
  return c_.decoder.attention.sinks ? c_.saved_fp32(s_.sinks) : nullptr;
}

void AttentionCall::forward() const {
  const BlockForwardWorkspace w = block_forward_workspace(c_.dims, 0);
  const Scratch scratch(c_, "block", w.gemm);
  const Stored q = c_.saved(s_.q);
  if (rotates(c_) && c_.decoder.latent())
    rotary_forward(c_.ctx, d_, LatentCall(c_, s_).rotated(q), rotation_of(d_, c_.b.layer));
  else if (rotates(c_))
    rotary_forward(c_.ctx, d_, parts(q, c_.saved(s_.k), c_.saved(s_.v)),
                   rotation_of(d_, c_.b.layer));
  attention_forward(c_.ctx, d_, saved_parts(), c_.saved(s_.context), c_.saved_fp32(s_.logsumexp),
                    scratch.base(), w.attention, scratch.gemm(), sinks());
  if (c_.decoder.latent()) LatentCall(c_, s_).take_values();
}

void AttentionCall::backward() const {
  const BlockBackwardWorkspace w = block_backward_workspace(c_.dims, 0);
  const Scratch scratch(c_, "block", w.gemm);
  const QueryKeyValue<Stored> gradient = parts(scratch[w.dq], scratch[w.dk], scratch[w.dv]);
  if (c_.decoder.latent())
    LatentCall(c_, s_).pad_values(scratch[w.latent.dkv_b], scratch[w.dattention]);
  attention_backward(c_.ctx, d_, saved_parts(), c_.saved(s_.context), c_.saved_fp32(s_.logsumexp),
                     scratch[w.dattention], gradient, scratch.base(), w.attention, scratch.gemm(),
                     {sinks(), scratch.fp32(w.dsinks)});
  if (!rotates(c_)) return;
  const Rotation rotation = rotation_of(d_, c_.b.layer);
  if (c_.decoder.latent())
    rotary_backward(c_.ctx, d_, LatentCall(c_, s_).rotated(gradient.q), rotation);
  else
    rotary_backward(c_.ctx, d_, gradient, rotation);
}

}  // namespace shardmark
