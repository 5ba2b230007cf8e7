// SPDX-License-Identifier: Apache-2.0
// The modules of a mixture of experts, in the place of a block's MLP.
#pragma once

#include <vector>

#include <core/nn/layers/balance_loss.hpp>
#include <core/nn/models/divided_experts.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// The loss that balances the experts of all layers.
BalanceLoss balance_loss_of(const ModuleCall& call);

/// One call of a module in a mixture, whose input is `x`.
class Mixture {
 public:
  Mixture(const ModuleCall& call, const MixtureSaved& saved, ConstStored x)
      : c_(call), moe_(call.decoder.moe), s_(saved), x_(x) {}

  /// The last module of the mixture writes `out`.
  void forward(Role role, Tensors t, const Scratch& scratch, const MixtureForwardWorkspace& w,
               Stored out) const;
  /// `dy` is the gradient of the mixture's output. Modules add to `dx`; the one that runs first
  /// overwrites it.
  void backward(Role role, Tensors t, Gradients g, const Scratch& scratch,
                const MixtureBackwardWorkspace& w, ConstStored dy, Stored dx) const;

  bool shares() const { return moe_.shared_ffn > 0; }
  /// Whether the output of the shared expert has a factor.
  bool weighs() const { return moe_.shared_factor; }
  /// The experts, if ranks divide them.
  DividedExperts divided() const { return {c_, s_, routes(), x_}; }
  /// The end of their forward, which writes `out` if the experts are the last module.
  void end_experts(Stored out) const { divided().forward_end(shares() ? c_.saved(s_.sum) : out); }

 private:
  // The rows of gate and up of all pairs.
  GatedRows gated() const {
    return {routes().pairs(), moe_.ffn, 2 * moe_.ffn, moe_.interleaved ? 2 : 1};
  }
  Routes routes() const;
  const float* balance_backward(const Scratch& scratch, const MixtureBackwardWorkspace& w) const;
  SharedExpert shared(Tensors t) const;
  std::vector<std::int32_t> starts() const;
  void project(Tensors t, const Scratch& scratch, std::int64_t y) const;
  void experts_forward(Tensors t, const Scratch& scratch, const MixtureForwardWorkspace& w,
                       Stored out) const;
  void experts_backward(Tensors t, Gradients g, const Scratch& scratch,
                        const MixtureBackwardWorkspace& w, ConstStored dy, Stored dx) const;
  void down_bias_backward(Tensors t, Gradients g, const Scratch& scratch,
                          const MixtureBackwardWorkspace& w,
                          const std::vector<std::int32_t>& starting) const;
  void shared_down_backward(Tensors t, Gradients g, const Scratch& scratch,
                            const MixtureBackwardWorkspace& w, ConstStored dout) const;
  void product_backward(Tensors t, Gradients g, const Scratch& scratch, ConstStored dy,
                        std::int64_t out, Stored dx, bool add = true) const;

  const ModuleCall& c_;
  const MoeSpec& moe_;
  const MixtureSaved& s_;
  ConstStored x_;
};

}  // namespace shardmark
