// SPDX-License-Identifier: Apache-2.0
// Attention itself, between the projections of q, k and v and that of its output, and in latent
// attention what stands between the products of latents and it.
#pragma once

#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/heads.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Attention of one block. Where ranks divide samples, it has whole samples and some of the heads.
class AttentionCall : public BlockCall {
 public:
  explicit AttentionCall(const BlockCall& call)
      : BlockCall(call),
        latent_(decoder.attention.latent),
        d_(attention_dims(dims)),
        rotates_(decoder.positions.kind == PositionKind::rotary &&
                 in_pattern(decoder.positions.rotates, b.layer)) {}

  void forward() const {
    if (d_.heads == 0) return;  // beyond the heads of keys, ranks that divide layers have none
    const Scratch scratch = this->scratch();
    rotate_parts(value(Value::q), value(Value::k), false);
    attention_forward(ctx, d_, saved_parts(), value(Value::context), saved_fp32(s.logsumexp),
                      scratch.base(), w.attention, scratch.gemm(), sinks());
    if (decoder.latent())  // the zeros after its values are left out
      resize_heads(ctx, dims, value(Value::context), latent_.qk_dim(), value(Value::attention),
                   latent_.value_dim);
  }
  /// Computes dq, dk and dv. Rotations are the same before q and k are exchanged.
  void backward() const {
    if (d_.heads == 0) return;
    const Scratch scratch = this->scratch();
    const Stored dq = gradient(Value::q), dk = gradient(Value::k), dout = gradient(Value::context);
    if (decoder.latent())  // attention needs the zeros again
      resize_heads(ctx, dims, gradient(Value::attention), latent_.value_dim, dout,
                   latent_.qk_dim());
    attention_backward(ctx, d_, saved_parts(), value(Value::context), saved_fp32(s.logsumexp), dout,
                       parts(dq, dk, gradient(Value::v)), scratch.base(), w.attention,
                       scratch.gemm(), {sinks(), scratch.fp32(w.dsinks)});
    rotate_parts(dq, dk, true);
  }

  /// Rotates the channels of keys that all heads share, and puts keys and values in their places.
  /// kv_b has made `made`.
  void spread(ConstStored made) const {
    const RotatedHeads shared = shared_keys(value(Value::kv_a));
    rotate_one(dims, shared, false);
    spread_latent(ctx, dims, {made, shared.first, shared.stride}, value(Value::k), value(Value::v));
  }
  /// The same backward: from dk and dv writes the gradients of what kv_b has made, and of the
  /// shared channels in that of what kv_a has made.
  void collect() const {
    const RotatedHeads shared = shared_keys(gradient(Value::kv_a));
    collect_latent(ctx, dims, gradient(Value::k), gradient(Value::v),
                   {gradient(Value::kv_b), shared.first, shared.stride});
    rotate_one(dims, shared, true);
  }

 private:
  template<class S>
  QueryKeyValue<S> parts(S q, S k, S v) const {
    return {q, k, v, row_elems(d_, Value::q), row_elems(d_, Value::k)};
  }
  QueryKeyValue<ConstStored> saved_parts() const {
    return parts<ConstStored>(value(Value::q), value(Value::k), value(Value::v));
  }
  const float* sinks() const { return decoder.attention.sinks ? saved_fp32(s.sinks) : nullptr; }
  // The channels of keys that all heads share are a part of what kv_a makes.
  RotatedHeads shared_keys(Stored kv_a) const {
    return {kv_a.at(latent_.kv_rank), row_elems(dims, Value::kv_a), 1, latent_.rotary_dim};
  }
  // Keys of latent attention are rotated before heads share them.
  void rotate_parts(Stored q, Stored k, bool back) const {
    if (decoder.latent())
      rotate_one(d_, {q.at(latent_.plain_dim), d_.q_dim(), d_.heads, latent_.qk_dim()}, back);
    else if (rotates_)
      rotate(ctx, d_, {q, row_elems(d_, Value::q), d_.heads, d_.head_dim()},
             {k, row_elems(d_, Value::k), d_.kv_heads, d_.head_dim()}, rotation_of(d_, b.layer),
             back);
  }
  void rotate_one(const TransformerDims& of, const RotatedHeads& x, bool back) const {
    if (rotates_) rotate(ctx, of, x, {x.first}, rotation_of(of, b.layer), back);
  }

  const LatentSpec& latent_;
  const TransformerDims d_;
  const bool rotates_;
};

}  // namespace shardmark
