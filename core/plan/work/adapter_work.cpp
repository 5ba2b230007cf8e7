// SPDX-License-Identifier: Apache-2.0
// The work of the factors of an adapter, in the order of core/nn/models/block.cpp.
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/work/work_lists.hpp>

namespace shardmark {
namespace {

class AdapterWork : private WorkLists {
 public:
  AdapterWork(const TransformerDims& d, const Module& factor, bool accumulate, Work& work)
      : WorkLists(d.dtype, work),
        d_(d),
        role_(factor.adapts),
        rotates_(in_pattern(d.decoder->positions.rotates, factor.unit - 1)),
        input_gradient_(factor.input_gradient),
        accumulate_(accumulate),
        width_(product_width(d, factor.adapts)),
        rows_(d.rows()),
        rank_(d.low_rank[role_].rank) {}

  void forward_a() {
    linear_forward(a(), d_.dtype);
    scale();
  }
  void forward_b() {
    linear_forward(b(), d_.dtype, true);
    arrange(false);
    if (ends_sublayer() && !d_.decoder->norms_after()) stream("residual", rows_ * d_.hidden, 1, 3);
  }
  void backward_b() {
    if (ends_sublayer() && !d_.decoder->norms_after() && d_.decoder->block.residual_factor != 1)
      stream("scaled_copy", rows_ * d_.hidden, 1, 2);
    arrange(true);
    linear_weight(b(), accumulate_);
    linear_input(b(), d_.dtype);
    scale();
  }
  void backward_a() {
    if (role_ == Role::mlp_proj) {
      const MlpSpec& mlp = d_.decoder->mlp;
      stream(activation_kernel(mlp.activation, false), rows_ * d_.ffn, 1, mlp.gated ? 3 : 2);
    }
    linear_weight(a(), accumulate_);
    if (input_gradient_)
      linear_input(a(), reads_norm() ? dnorm_type(d_) : d_.dtype,
                   !begins_input_gradient(*d_.decoder, role_));
  }

 private:
  LinearShape a() const { return {rows_, width_.in, rank_}; }
  LinearShape b() const { return {rows_, rank_, width_.out}; }
  bool ends_sublayer() const { return role_ == Role::attn_proj || role_ == Role::mlp_proj; }
  // Whether the product's input is the output of a norm of the block.
  bool reads_norm() const { return !ends_sublayer() && role_ != Role::q_b && role_ != Role::kv_b; }
  void scale() { stream("scaled_copy", rows_ * rank_, 1, 2); }
  void arrange(bool backward) {
    if (role_ == Role::qkv) arrange_heads(d_);
    if (role_ == Role::kv_b) spread_latent(d_, rotates_, backward);
  }
  const TransformerDims& d_;
  const Role role_;
  const bool rotates_, input_gradient_, accumulate_;
  const Width width_;
  const std::int64_t rows_, rank_;
};

}  // namespace

void add_adapter_work(const TransformerDims& dims, const Module& factor, bool backward,
                      bool accumulate, Work& work) {
  AdapterWork adapter(dims, factor, accumulate, work);
  const bool first = factor.role == Role::lora_a;
  if (backward)
    first ? adapter.backward_a() : adapter.backward_b();
  else
    first ? adapter.forward_a() : adapter.forward_b();
}

}  // namespace shardmark
