// SPDX-License-Identifier: Apache-2.0
// How the work of one call of a decoder's module is listed, in the order of
// core/nn/models/block.cpp and transformer.cpp. Only the files of this folder use this header.
#pragma once

#include <algorithm>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/work/work_lists.hpp>

namespace shardmark {

/// Appends the products and kernels of one event to a `Work`.
class ModuleWork : private WorkLists {
 public:
  ModuleWork(const Program& program, const Event& event, const WorkOptions& options, Work& work)
      : WorkLists(program.precision.computes_in(), work),
        event_(event),
        options_(options),
        d_(transformer_dims(program)),
        decoder_(*d_.decoder),
        module_(program.model.modules[event.module]),
        role_(module_.role),
        rows_(d_.rows()),
        h_(d_.hidden),
        q_(d_.q_dim()),
        biased_(module_.param_count > 1) {
    const int layer = module_.unit - 1;
    d_ = dims_of_layer(d_, std::max(layer, 0));
    attention_ = attention_dims(d_);
    if (decoder_.positions.kind == PositionKind::rotary)
      rotates_ = in_pattern(decoder_.positions.rotates, std::max(layer, 0));
    const std::vector<int> params = program.model.params_of(event.module);
    trained_ = !params.empty() && program.model.params[params[0]].trained();
    bias_trained_ = biased_ && program.model.params[params[1]].trained();
    if (event.kernel == Kernel::backward && event.params.count > 0) {
      const Operand& grad = program.operands[event.operands.first + event.params.count];
      accumulate_ = grad.reads && grad.writes;
    }
  }

  void add() {
    if (module_.adapts != Role::container)
      return event_.kernel == Kernel::backward ? factor_backward() : factor_forward();
    if (module_.exchanged && event_.kernel != Kernel::forward && event_.kernel != Kernel::backward)
      return exchange();
    switch (event_.kernel) {
      case Kernel::forward: return forward();
      case Kernel::backward: return backward();
      case Kernel::forward_end: return forward_end();
      case Kernel::backward_end: return backward_end();
      case Kernel::attention: return attention_forward();
      default: return attention_backward();
    }
  }

 private:
  // A layer of all rows. The head's weight is never turned.
  LinearShape layer(std::int64_t in, std::int64_t out) const {
    return {rows_, in, out, decoder_.in_out && role_ != Role::head};
  }
  void product_forward(std::int64_t in, std::int64_t out, bool accumulate = false) {
    linear_forward(layer(in, out), d_.dtype, accumulate);
  }
  void product_input(std::int64_t in, std::int64_t out, Dtype c_type, bool accumulate = false) {
    linear_input(layer(in, out), c_type, accumulate);
  }
  void product_weight(std::int64_t in, std::int64_t out) {
    if (trained_) linear_weight(layer(in, out), accumulate_);
  }
  void forward();
  void forward_end();
  void backward_end();
  void loss_of_logits();
  bool divided() const { return d_.part.cuts(); }
  void backward();
  void attention_forward();
  void attention_backward();
  void describe_attention(bool backward);
  void rotate(const char* kernel);
  // Whether attention is in calls of its own, between two exchanges.
  bool exchanges() const { return d_.sequence_part.cuts(); }
  void head_forward();
  void head_backward();
  void close_sublayer(std::int64_t in);
  void add_residual();
  void norm_forward();
  void norm_backward(Dtype dy, bool adds);
  void projection_forward();
  void projection_backward();
  void without_norm();
  void scale_gradient();
  void activation(bool backward);
  void mixture(bool backward);
  void exchange();
  // Those of an adapter's factors.
  void factor_forward();
  void factor_backward();
  LinearShape factor_shape() const;
  void scale_low_rank();
  static bool ends_sublayer(Role role) { return role == Role::attn_proj || role == Role::mlp_proj; }
  // The kernels between a projection's output, or its gradient, and the place of its heads.
  void arrange_product(Role role, bool backward) {
    if (role == Role::qkv) arrange_heads(d_);
    if (role == Role::kv_b) spread_latent(d_, rotates_, backward);
  }
  // Calls f(columns) for each piece of the vocabulary.
  template<class F>
  void for_each_piece(const F& f) const {
    if (d_.head_part.cuts()) return f(0, d_.head_part.share(d_.vocab));
    const std::int64_t columns = head_piece_columns(d_, options_.on_host);
    for (std::int64_t v = 0; v < d_.vocab; v += columns) f(v, std::min(columns, d_.vocab - v));
  }
  // Calls f(rows, keys, heads, count) for each kind of tile.
  template<class F>
  void for_each_tile(const F& f) const {
    const std::int64_t heads = attention_tile(attention_).heads;
    const std::int64_t count = d_.micro_batch * (attention_.heads / heads);
    for_each_attention_tile(
        attention_, [&](std::int64_t rows, std::int64_t keys) { f(rows, keys, heads, count); });
  }
  // Elements per row of what the module makes.
  std::int64_t made() const { return row_elems(d_, flow_of(decoder_, role_).makes); }
  bool centred() const { return decoder_.norm.kind == NormKind::layer; }

  const Event& event_;
  const WorkOptions& options_;
  TransformerDims d_, attention_;
  const Decoder& decoder_;
  const Module& module_;
  const Role role_;
  const std::int64_t rows_, h_, q_;
  const bool biased_;  // the module has two parameters
  bool trained_ = true, bias_trained_ = false, rotates_ = false, accumulate_ = false;
};

}  // namespace shardmark
