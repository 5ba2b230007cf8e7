// SPDX-License-Identifier: Apache-2.0
// Attention itself, between the projections of q, k and v and that of its output.
#pragma once

#include <core/nn/layers/attention.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// Whether queries and keys are rotated in the layer of a call.
bool rotates(const ModuleCall& call);

/// Attention of one block. Where ranks divide samples, it has whole samples and some of the heads.
class AttentionCall {
 public:
  AttentionCall(const ModuleCall& call, const BlockSaved& saved)
      : c_(call), s_(saved), d_(attention_dims(call.dims)) {}

  void forward() const;
  /// Computes dq, dk and dv. Rotations are the same before q and k are exchanged.
  void backward() const;

 private:
  template<class S>
  QueryKeyValue<S> parts(S q, S k, S v) const {
    return {q, k, v, q_stride(d_), kv_stride(d_)};
  }
  QueryKeyValue<ConstStored> saved_parts() const {
    return parts<ConstStored>(c_.saved(s_.q), c_.saved(s_.k), c_.saved(s_.v));
  }
  const float* sinks() const;

  const ModuleCall& c_;
  const BlockSaved s_;
  const TransformerDims d_;
};

}  // namespace shardmark
