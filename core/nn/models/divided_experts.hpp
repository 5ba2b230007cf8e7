// SPDX-License-Identifier: Apache-2.0
// A rank's experts, if ranks divide those of a layer. A pass has three calls, between which ranks
// send each other rows: the first sorts this rank's rows by their experts, into `home`; the second
// computes what has arrived in `away`, where it leaves what is to be sent back; and the third
// combines what comes home.
#pragma once

#include <core/nn/layers/divided_experts.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// One call of the experts, whose input is `x` and whose routes are made.
class DividedExperts {
 public:
  DividedExperts(const ModuleCall& call, const MixtureSaved& saved, const Routes& routes,
                 ConstStored x)
      : c_(call), moe_(call.decoder.moe), s_(saved), routes_(routes), x_(x) {}

  void forward_begin() const;
  void forward(Tensors t, const Scratch& scratch, const MixtureForwardWorkspace& w) const;
  void forward_end(Stored out) const;
  /// `dy` is the gradient of the mixture's output. Backward adds to `dx` if `add`, and otherwise
  /// overwrites it.
  void backward_begin(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                      ConstStored dy) const;
  void backward(Tensors t, Gradients g, const Scratch& scratch,
                const MixtureBackwardWorkspace& w) const;
  void backward_end(const Scratch& scratch, const MixtureBackwardWorkspace& w, Stored dx,
                    bool add) const;

 private:
  Stored home() const { return {c_.dims.dtype, c_.b.home}; }
  Stored away() const { return {c_.dims.dtype, c_.b.away}; }
  // Whether ranks divide layers as well. This rank's rows are those of its lane then.
  bool folds() const { return c_.dims.part.cuts(); }
  PairLanes lanes() const;
  Stored pair_weights() const { return {c_.dims.dtype, c_.b.pair_weights}; }
  ExpertArrivals arrivals(std::int64_t rows) const;
  // After arrange_arrivals: the first place of each of this rank's experts, and the rows.
  std::vector<std::int32_t> starts() const;
  std::int64_t own() const { return moe_.experts / c_.dims.expert_part.ranks; }

  const ModuleCall& c_;
  const MoeSpec& moe_;
  const MixtureSaved& s_;
  const Routes routes_;
  const ConstStored x_;
};

}  // namespace shardmark
