// SPDX-License-Identifier: Apache-2.0
// Attention itself, between the projections of q, k and v and that of its output, and in latent
// attention what stands between the products of latents and it.
#pragma once

#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/heads.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// Attention of one block. Where ranks divide samples, it has whole samples and some of the heads.
class AttentionCall : public ModuleCall {
 public:
  AttentionCall(const ModuleCall& call, const BlockSaved& saved)
      : ModuleCall(call),
        latent_(call.decoder.attention.latent),
        s_(saved),
        d_(attention_dims(call.dims)),
        rotates_(call.decoder.positions.kind == PositionKind::rotary &&
                 in_pattern(call.decoder.positions.rotates, call.b.layer)) {}

  void forward(const Scratch& scratch, const BlockForwardWorkspace& w) const {
    if (d_.heads == 0) return;  // beyond the heads of keys, ranks that divide layers have none
    rotate_parts(saved(s_.q), saved(s_.k), false);
    attention_forward(ctx, d_, saved_parts(), saved(s_.context), saved_fp32(s_.logsumexp),
                      scratch.base(), w.attention, scratch.gemm(), sinks());
    if (decoder.latent())  // the zeros after its values are left out
      resize_heads(ctx, dims, saved(s_.context), latent_.qk_dim(), saved(s_.attention),
                   latent_.value_dim);
  }
  /// Computes dq, dk and dv. Rotations are the same before q and k are exchanged.
  void backward(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    if (d_.heads == 0) return;
    const Stored dq = scratch[w.dq], dk = scratch[w.dk];
    if (decoder.latent())  // attention needs the zeros again
      resize_heads(ctx, dims, scratch[w.latent.dkv_b], latent_.value_dim, scratch[w.dattention],
                   latent_.qk_dim());
    attention_backward(ctx, d_, saved_parts(), saved(s_.context), saved_fp32(s_.logsumexp),
                       scratch[w.dattention], parts(dq, dk, scratch[w.dv]), scratch.base(),
                       w.attention, scratch.gemm(), {sinks(), scratch.fp32(w.dsinks)});
    rotate_parts(dq, dk, true);
  }

  /// Rotates the channels of keys that all heads share, and puts keys and values in their places.
  /// kv_b has made `made`.
  void spread(ConstStored made) const {
    const RotatedHeads shared = shared_keys(saved(s_.latent.kv_a));
    rotate_one(dims, shared, false);
    spread_latent(ctx, dims, {made, shared.first, shared.stride}, saved(s_.k), saved(s_.v));
  }
  /// The same backward: from dk and dv writes the gradients of what kv_b has made, and of the
  /// shared channels in that of what kv_a has made.
  void collect(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    const RotatedHeads shared = shared_keys(scratch[w.latent.dkv_a]);
    collect_latent(ctx, dims, scratch[w.dk], scratch[w.dv],
                   {scratch[w.latent.dkv_b], shared.first, shared.stride});
    rotate_one(dims, shared, true);
  }

 private:
  template<class S>
  QueryKeyValue<S> parts(S q, S k, S v) const {
    return {q, k, v, q_stride(d_), kv_stride(d_)};
  }
  QueryKeyValue<ConstStored> saved_parts() const {
    return parts<ConstStored>(saved(s_.q), saved(s_.k), saved(s_.v));
  }
  const float* sinks() const { return decoder.attention.sinks ? saved_fp32(s_.sinks) : nullptr; }
  // The channels of keys that all heads share are a part of what kv_a makes.
  RotatedHeads shared_keys(Stored kv_a) const {
    return {kv_a.at(latent_.kv_rank), latent_.kv_rank + latent_.rotary_dim, 1, latent_.rotary_dim};
  }
  // Keys of latent attention are rotated before heads share them.
  void rotate_parts(Stored q, Stored k, bool back) const {
    if (decoder.latent())
      rotate_one(d_, {q.at(latent_.plain_dim), d_.q_dim(), d_.heads, latent_.qk_dim()}, back);
    else if (rotates_)
      rotate(ctx, d_, {q, q_stride(d_), d_.heads, d_.head_dim()},
             {k, kv_stride(d_), d_.kv_heads, d_.head_dim()}, rotation_of(d_, b.layer), back);
  }
  void rotate_one(const TransformerDims& of, const RotatedHeads& x, bool back) const {
    if (rotates_) rotate(ctx, of, x, {x.first}, rotation_of(of, b.layer), back);
  }

  const LatentSpec& latent_;
  const BlockSaved& s_;
  const TransformerDims d_;
  const bool rotates_;
};

}  // namespace shardmark
