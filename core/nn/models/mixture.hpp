// SPDX-License-Identifier: Apache-2.0
// The modules of a mixture of experts, in the place of a block's MLP.
#pragma once

#include <core/nn/layers/balance_loss.hpp>
#include <core/nn/models/divided_experts.hpp>

namespace shardmark {

/// The loss that balances the experts of all layers.
inline BalanceLoss balance_loss_of(const ModuleCall& c) {
  const std::int64_t experts = c.decoder.moe.experts;
  const std::int64_t layers = balance_elems(c.dims, c.dims.layers) / (2 * experts);
  const auto rows = static_cast<double>(layers * c.rows);
  return {c.b.as<float>(ModuleBuffer::balance), layers, experts,
          c.decoder.moe.balance_loss * static_cast<double>(experts) / (rows * rows)};
}

/// One call of a module in a mixture, whose input is `x`.
class Mixture : public BlockCall {
 public:
  Mixture(const BlockCall& call, ConstStored x) : BlockCall(call), x_(x) {}

  /// The last module of the mixture writes `out`.
  void forward(Role role, Stored out) const {
    const Scratch scratch = this->scratch();
    const GatedRows size{rows, moe_.shared_ffn, moe_.shared_ffn};
    switch (role) {
      case Role::shared_gate: return project(s_.shared_gate);
      case Role::shared_up: return project(s_.shared_up);
      case Role::shared_down:
        gated_forward(ctx, decoder.mlp.activation, size, saved(s_.shared_gate), saved(s_.shared_up),
                      scratch[w_.shared_act]);
        scratch.linear().forward(moe_.shared_ffn, h, scratch[w_.shared_act], t.weight, nullptr,
                                 weighs() ? saved(s_.shared_out) : out);
        if (!weighs()) residual(ctx, rows * h, saved(s_.sum), out);
        return;
      case Role::router:
        scratch.linear().forward(h, moe_.experts, x_, t.weight, t.bias,
                                 saved_fp32(s_.probabilities));
        choose_experts(ctx, moe_, routes());
        if (moe_.balance_loss > 0) balance_sums(ctx, routes(), b.as<float>(ModuleBuffer::balance));
        return;
      case Role::experts:
        if (dims.expert_part.cuts()) return experts().forward();
        return experts_forward(shares() ? saved(s_.sum) : out);
      case Role::shared_router: return add_shared_expert(ctx, shared(), saved(s_.sum), out);
      default: unknown_role(role);
    }
  }

  /// `dy` is the gradient of the mixture's output. Modules add to `dx`; the one that runs first
  /// overwrites it.
  void backward(Role role, ConstStored dy, Stored dx) const {
    const Scratch scratch = this->scratch();
    switch (role) {
      case Role::shared_router:
        return add_shared_expert_backward(ctx, shared(), dy, scratch.fp32(w_.dfactor), dx,
                                          scratch[w_.dshared], g.weight, g.accumulate);
      case Role::experts:
        if (dims.expert_part.cuts()) return experts().backward();
        return experts_backward(dy, dx);
      case Role::router:
        choose_experts_backward(ctx, moe_, routes(), scratch.fp32(w_.dweights), balance_backward(),
                                scratch[w_.dlogits]);
        product_backward(scratch[w_.dlogits], moe_.experts, dx);
        // Each of the ranks that divide layers has the gradient of its own lane. The plan adds up
        // what they leave in `partial`.
        if (divided()) convert(ctx, rows * h, partial(), dx);
        return;
      case Role::shared_down: return shared_down_backward(weighs() ? scratch[w_.dshared] : dy);
      case Role::shared_up:
        return product_backward(scratch[w_.dshared_up], moe_.shared_ffn, dx,
                                weighs());  // without a factor it is the first to write dx
      case Role::shared_gate:
        return product_backward(scratch[w_.dshared_gate], moe_.shared_ffn, dx);
      default: unknown_role(role);
    }
  }

  bool shares() const { return moe_.shared_ffn > 0; }
  /// Whether the output of the shared expert has a factor.
  bool weighs() const { return moe_.shared_factor; }
  /// The experts, if ranks divide them.
  DividedExperts experts() const { return {*this, routes(), x_}; }
  /// The end of their forward, which writes `out` if the experts are the last module.
  void end_experts(Stored out) const { experts().forward_end(shares() ? saved(s_.sum) : out); }

 private:
  // The rows of gate and up of all pairs.
  GatedRows gated() const {
    return {routes().pairs(), moe_.ffn, 2 * moe_.ffn, moe_.interleaved ? 2 : 1};
  }
  Routes routes() const {
    return {rows,
            moe_.experts,
            moe_.per_token,
            saved_fp32(s_.probabilities),
            saved_fp32(s_.weights),
            saved_ints(s_.chosen),
            saved_ints(s_.places),
            saved_ints(s_.sources),
            saved_ints(s_.starts)};
  }

  SharedExpert shared() const {
    return {rows, h, x_, t.weight, saved(s_.shared_out), saved_fp32(s_.shared_factor)};
  }

  ExpertProducts products() const {
    return {*this, on_host(ctx, routes().starts, moe_.experts + 1)};
  }

  void project(std::int64_t y) const {
    scratch().linear().forward(h, moe_.shared_ffn, x_, t.weight, nullptr, saved(y));
  }

  void experts_forward(Stored out) const {
    const Scratch scratch = this->scratch();
    const Routes by = routes();
    const Stored sorted = scratch[w_.rows], act = scratch[w_.act], gate_up = saved(s_.gate_up);
    const ExpertProducts products = this->products();
    for (std::size_t e = 0; e < b.expert_rows.size(); ++e) b.expert_rows[e] += products.rows_of(e);
    collect_rows(ctx, by, h, x_, sorted);
    products.forward(gate_up_, sorted, gate_up);
    gated_forward(ctx, decoder.mlp.activation, gated(), gate_up, gate_up.at(gated().up()), act,
                  moe_.gate);
    products.forward(down_, act, sorted);
    combine_rows(ctx, by, h, by.weights, sorted, out, false);
  }

  // Backward of a product of x, which writes dx or adds to it.
  void product_backward(ConstStored dy, std::int64_t out, Stored dx, bool add = true) const {
    const Scratch scratch = this->scratch();
    scratch.linear().backward_input(h, out, dy, t.weight, dx, add);
    scratch.linear().backward_weight(h, out, dy, x_, g.weight, g.accumulate);
    if (g.bias.data != nullptr) bias_backward(ctx, rows, out, dy, g.bias, g.accumulate);
  }

  void shared_down_backward(ConstStored dout) const {
    const Scratch scratch = this->scratch();
    const std::int64_t f = moe_.shared_ffn;
    const Stored act = scratch[w_.shared_act];
    scratch.linear().backward_input(f, h, dout, t.weight, scratch[w_.dshared_gate]);
    gated_backward(ctx, decoder.mlp.activation, {rows, f, f}, saved(s_.shared_gate),
                   saved(s_.shared_up), scratch[w_.dshared_gate], act, scratch[w_.dshared_gate],
                   scratch[w_.dshared_up]);
    scratch.linear().backward_weight(f, h, dout, act, g.weight, g.accumulate);
  }

  // The gradient of the probabilities, or nullptr if no loss depends on them.
  const float* balance_backward() const {
    if (moe_.balance_loss == 0) return nullptr;
    float* dbalance = scratch().fp32(w_.dbalance);
    balance_gradient(ctx, balance_loss_of(*this), b.balance_scale, dbalance);
    return dbalance;
  }

  // Gradients of an expert's output are collected without the weight, which is multiplied in where
  // the activation's gradient is known: the weight's own gradient needs the expert's output or the
  // gradient of its activation, and only the latter is at hand.
  void experts_backward(ConstStored dy, Stored dx) const {
    const Scratch scratch = this->scratch();
    const Routes by = routes();
    const Stored sorted = scratch[w_.rows], act = scratch[w_.act], dgate_up = scratch[w_.dgate_up];
    const Stored gate_up = saved(s_.gate_up);
    const ExpertProducts products = this->products();
    collect_rows(ctx, by, h, dy, sorted);
    products.backward_input(down_, sorted, act);
    gated_backward(ctx, decoder.mlp.activation, gated(), gate_up, gate_up.at(gated().up()), act,
                   act, dgate_up, dgate_up.at(gated().up()), moe_.gate);
    weigh_pairs(ctx, by, gated(), moe_.gate, gate_up, act, dgate_up, scratch.fp32(w_.dweights));
    products.backward_weight(down_, sorted, act);
    if (moe_.bias) {  // of outputs, whose gradients have their weights then
      weigh_rows(ctx, by, h, t.down_bias, sorted, scratch.fp32(w_.dweights));
      products.backward_bias(down_, sorted);
    }
    collect_rows(ctx, by, h, x_, sorted);
    products.backward_weight(gate_up_, dgate_up, sorted);
    products.backward_bias(gate_up_, dgate_up);
    products.backward_input(gate_up_, dgate_up, sorted);
    combine_rows(ctx, by, h, nullptr, sorted, dx, shares());
  }

  const MoeSpec& moe_ = decoder.moe;
  const MixtureSaved& s_ = s.mixture;
  const MixtureWorkspace& w_ = w.mixture;
  const ConstStored x_;
  const ExpertTensors gate_up_{h, 2 * moe_.ffn, t.weight, t.bias, g.weight, g.bias};
  const ExpertTensors down_{moe_.ffn, h, t.down, t.down_bias, g.down, g.down_bias};
};

}  // namespace shardmark
