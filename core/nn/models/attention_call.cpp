// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/attention_call.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {

bool AttentionCall::rotates() const {
  return c_.decoder.positions.kind == PositionKind::rotary &&
         in_pattern(c_.decoder.positions.rotates, c_.b.layer);
}

const float* AttentionCall::sinks() const {
  return c_.decoder.attention.sinks ? c_.saved_fp32(s_.sinks) : nullptr;
}

void AttentionCall::forward() const {
  const BlockForwardWorkspace w = block_forward_workspace(c_.dims, 0);
  const Scratch scratch(c_, "block", w.gemm);
  if (rotates())
    rotary_forward(c_.ctx, d_, parts(c_.saved(s_.q), c_.saved(s_.k), c_.saved(s_.v)),
                   rotation_of(d_, c_.b.layer));
  attention_forward(c_.ctx, d_, saved_parts(), c_.saved(s_.context), c_.saved_fp32(s_.logsumexp),
                    scratch.base(), w.attention, scratch.gemm(), sinks());
}

void AttentionCall::backward() const {
  const BlockBackwardWorkspace w = block_backward_workspace(c_.dims, 0);
  const Scratch scratch(c_, "block", w.gemm);
  const QueryKeyValue<Stored> gradient = parts(scratch[w.dq], scratch[w.dk], scratch[w.dv]);
  attention_backward(c_.ctx, d_, saved_parts(), c_.saved(s_.context), c_.saved_fp32(s_.logsumexp),
                     scratch[w.dattention], gradient, scratch.base(), w.attention, scratch.gemm(),
                     {sinks(), scratch.fp32(w.dsinks)});
  if (rotates()) rotary_backward(c_.ctx, d_, gradient, rotation_of(d_, c_.b.layer));
}

}  // namespace shardmark
