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
  return {c.b.balance, layers, experts,
          c.decoder.moe.balance_loss * static_cast<double>(experts) / (rows * rows)};
}

/// One call of a module in a mixture, whose input is `x`.
class Mixture : public ModuleCall {
 public:
  Mixture(const ModuleCall& call, const MixtureSaved& saved, ConstStored x)
      : ModuleCall(call), moe_(call.decoder.moe), s_(saved), x_(x) {}

  /// The last module of the mixture writes `out`.
  void forward(Role role, const Scratch& scratch, const MixtureForwardWorkspace& w,
               Stored out) const {
    const GatedRows size{rows, moe_.shared_ffn, moe_.shared_ffn};
    switch (role) {
      case Role::shared_gate: return project(scratch, s_.shared_gate);
      case Role::shared_up: return project(scratch, s_.shared_up);
      case Role::shared_down:
        gated_forward(ctx, decoder.mlp.activation, size, saved(s_.shared_gate), saved(s_.shared_up),
                      scratch[w.shared_act]);
        scratch.linear().forward(moe_.shared_ffn, h, scratch[w.shared_act], t.weight, nullptr,
                                 weighs() ? saved(s_.shared_out) : out);
        if (!weighs()) residual(ctx, rows * h, saved(s_.sum), out);
        return;
      case Role::router:
        scratch.linear().forward(h, moe_.experts, x_, t.weight, t.bias,
                                 saved_fp32(s_.probabilities));
        choose_experts(ctx, moe_, routes());
        if (moe_.balance_loss > 0) balance_sums(ctx, routes(), b.balance);
        return;
      case Role::experts:
        if (dims.expert_part.cuts()) return experts().forward(scratch, w);
        return experts_forward(scratch, w, shares() ? saved(s_.sum) : out);
      case Role::shared_router: return add_shared_expert(ctx, shared(), saved(s_.sum), out);
      default: unknown_role(role);
    }
  }

  /// `dy` is the gradient of the mixture's output. Modules add to `dx`; the one that runs first
  /// overwrites it.
  void backward(Role role, const Scratch& scratch, const MixtureBackwardWorkspace& w,
                ConstStored dy, Stored dx) const {
    switch (role) {
      case Role::shared_router:
        return add_shared_expert_backward(ctx, shared(), dy, scratch.fp32(w.dfactor), dx,
                                          scratch[w.dshared], g.weight, g.accumulate);
      case Role::experts:
        if (dims.expert_part.cuts()) return experts().backward(scratch, w);
        return experts_backward(scratch, w, dy, dx);
      case Role::router:
        choose_experts_backward(ctx, moe_, routes(), scratch.fp32(w.dweights),
                                balance_backward(scratch, w), scratch[w.dlogits]);
        product_backward(scratch, scratch[w.dlogits], moe_.experts, dx);
        // Each of the ranks that divide layers has the gradient of its own lane. The plan adds up
        // what they leave in `partial`.
        if (divided()) convert(ctx, rows * h, partial(), dx);
        return;
      case Role::shared_down:
        return shared_down_backward(scratch, w, weighs() ? scratch[w.dshared] : dy);
      case Role::shared_up:
        return product_backward(scratch, scratch[w.dshared_up], moe_.shared_ffn, dx,
                                weighs());  // without a factor it is the first to write dx
      case Role::shared_gate:
        return product_backward(scratch, scratch[w.dshared_gate], moe_.shared_ffn, dx);
      default: unknown_role(role);
    }
  }

  bool shares() const { return moe_.shared_ffn > 0; }
  /// Whether the output of the shared expert has a factor.
  bool weighs() const { return moe_.shared_factor; }
  /// The experts, if ranks divide them.
  DividedExperts experts() const { return {*this, s_, routes(), x_}; }
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

  // The first place of each expert, and the number of pairs.
  std::vector<std::int32_t> starts() const {
    return on_host(ctx, routes().starts, moe_.experts + 1);
  }

  void project(const Scratch& scratch, std::int64_t y) const {
    scratch.linear().forward(h, moe_.shared_ffn, x_, t.weight, nullptr, saved(y));
  }

  void experts_forward(const Scratch& scratch, const MixtureForwardWorkspace& w, Stored out) const {
    const std::int64_t f = moe_.ffn;
    const Routes by = routes();
    const Stored sorted = scratch[w.rows], act = scratch[w.act], gate_up = saved(s_.gate_up);
    const std::vector<std::int32_t> starting = starts();
    for (std::size_t e = 0; e < b.expert_rows.size(); ++e)
      b.expert_rows[e] += starting[e + 1] - starting[e];
    collect_rows(ctx, by, h, x_, sorted);
    for_each_used_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      e.product.forward(h, 2 * f, sorted.at(e.first * h), t.weight.at(e.expert * 2 * f * h),
                        bias_at(t.bias, e.expert * 2 * f), gate_up.at(e.first * 2 * f));
    });
    gated_forward(ctx, decoder.mlp.activation, gated(), gate_up, gate_up.at(gated().up()), act,
                  moe_.gate);
    for_each_used_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      e.product.forward(f, h, act.at(e.first * f), t.down.at(e.expert * h * f),
                        bias_at(t.down_bias, e.expert * h), sorted.at(e.first * h));
    });
    combine_rows(ctx, by, h, by.weights, sorted, out, false);
  }

  // Backward of a product of x, which writes dx or adds to it.
  void product_backward(const Scratch& scratch, ConstStored dy, std::int64_t out, Stored dx,
                        bool add = true) const {
    scratch.linear().backward_input(h, out, dy, t.weight, dx, add);
    scratch.linear().backward_weight(h, out, dy, x_, g.weight, g.accumulate);
    if (g.bias.data != nullptr) bias_backward(ctx, rows, out, dy, g.bias, g.accumulate);
  }

  void shared_down_backward(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                            ConstStored dout) const {
    const std::int64_t f = moe_.shared_ffn;
    const Stored act = scratch[w.shared_act];
    scratch.linear().backward_input(f, h, dout, t.weight, scratch[w.dshared_gate]);
    gated_backward(ctx, decoder.mlp.activation, {rows, f, f}, saved(s_.shared_gate),
                   saved(s_.shared_up), scratch[w.dshared_gate], act, scratch[w.dshared_gate],
                   scratch[w.dshared_up]);
    scratch.linear().backward_weight(f, h, dout, act, g.weight, g.accumulate);
  }

  // The gradient of the probabilities, or nullptr if no loss depends on them.
  const float* balance_backward(const Scratch& scratch, const MixtureBackwardWorkspace& w) const {
    if (moe_.balance_loss == 0) return nullptr;
    balance_gradient(ctx, balance_loss_of(*this), b.balance_scale, scratch.fp32(w.dbalance));
    return scratch.fp32(w.dbalance);
  }

  // The biases of outputs, from the gradients of outputs, which then have their weights.
  void down_bias_backward(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                          const std::vector<std::int32_t>& starting) const {
    weigh_rows(ctx, routes(), h, t.down_bias, scratch[w.rows], scratch.fp32(w.dweights));
    if (g.down_bias.data == nullptr) return;
    for_each_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      bias_backward(ctx, e.count, h, scratch[w.rows].at(e.first * h), g.down_bias.at(e.expert * h),
                    g.accumulate);
    });
  }

  // Gradients of an expert's output are collected without the weight, which is multiplied in where
  // the activation's gradient is known: the weight's own gradient needs the expert's output or the
  // gradient of its activation, and only the latter is at hand.
  void experts_backward(const Scratch& scratch, const MixtureBackwardWorkspace& w, ConstStored dy,
                        Stored dx) const {
    const std::int64_t f = moe_.ffn;
    const Routes by = routes();
    const Stored sorted = scratch[w.rows], act = scratch[w.act], dgate_up = scratch[w.dgate_up];
    const Stored gate_up = saved(s_.gate_up);
    const std::vector<std::int32_t> starting = starts();
    collect_rows(ctx, by, h, dy, sorted);
    for_each_used_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      e.product.backward_input(f, h, sorted.at(e.first * h), t.down.at(e.expert * h * f),
                               act.at(e.first * f));
    });
    gated_backward(ctx, decoder.mlp.activation, gated(), gate_up, gate_up.at(gated().up()), act,
                   act, dgate_up, dgate_up.at(gated().up()), moe_.gate);
    weigh_pairs(ctx, by, gated(), moe_.gate, gate_up, act, dgate_up, scratch.fp32(w.dweights));
    for_each_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      expert_weight_backward(*this, e, f, h, sorted, act, g.down);
    });
    if (moe_.bias) down_bias_backward(scratch, w, starting);
    collect_rows(ctx, by, h, x_, sorted);
    for_each_expert(*this, scratch, starting, [&](const ExpertRows& e) {
      const ConstStored d = dgate_up.at(e.first * 2 * f);
      expert_weight_backward(*this, e, h, 2 * f, dgate_up, sorted, g.weight);
      if (g.bias.data != nullptr)
        bias_backward(ctx, e.count, 2 * f, d, g.bias.at(e.expert * 2 * f), g.accumulate);
      if (e.count > 0)
        e.product.backward_input(h, 2 * f, d, t.weight.at(e.expert * 2 * f * h),
                                 sorted.at(e.first * h));
    });
    combine_rows(ctx, by, h, nullptr, sorted, dx, shares());
  }

  const MoeSpec& moe_;
  const MixtureSaved& s_;
  ConstStored x_;
};

}  // namespace shardmark
