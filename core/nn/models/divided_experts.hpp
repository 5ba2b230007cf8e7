// SPDX-License-Identifier: Apache-2.0
// A rank's experts, if ranks divide those of a layer. A pass has three calls, between which ranks
// send each other rows: the first sorts this rank's rows by their experts, into `home`; the second
// computes what has arrived in `away`, where it leaves what is to be sent back; and the third
// combines what comes home.
#pragma once

#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/divided_experts.hpp>
#include <core/nn/models/expert_products.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// One call of the experts, whose input is `x` and whose routes are made.
class DividedExperts : public ModuleCall {
 public:
  DividedExperts(const ModuleCall& call, const MixtureSaved& saved, const Routes& routes,
                 ConstStored x)
      : ModuleCall(call), moe_(call.decoder.moe), s_(saved), routes_(routes), x_(x) {}

  void forward_begin() const {
    if (divided()) place_in_lanes(ctx, routes_, lanes());
    count_rows(ctx, routes_, lanes(), b.counts_sent);
    if (!b.expert_rows.empty()) {
      const auto counts = on_host(ctx, b.counts_sent, moe_.experts);
      for (std::size_t e = 0; e < counts.size(); ++e) b.expert_rows[e] += counts[e];
    }
    if (!divided()) return collect_rows(ctx, routes_, h, x_, home());
    collect_lane(ctx, routes_, lanes(), h, x_, home(),
                 {b.pair_tokens, b.pair_choices, pair_weights(), b.lane_pairs});
  }

  void forward(const Scratch& scratch, const MixtureForwardWorkspace& w) const {
    const std::int64_t f = moe_.ffn;
    const Stored sorted = scratch[w.rows], act = scratch[w.act], arrived = saved(s_.arrived);
    const Stored gate = saved(s_.gate), up = saved(s_.up);
    arrange_arrivals(ctx, arrivals(0), b.counts_received);
    const std::vector<std::int32_t> starts = this->starts();
    const ExpertArrivals by = arrivals(starts.back());
    if (moe_.routing == Routing::balanced && by.rows != arriving_pairs(dims))
      throw PlanError(
          fmt::format("experts: {} rows arrived where the plan has {}: the ranks do not "
                      "route alike",
                      by.rows, arriving_pairs(dims)));
    sort_arrivals(ctx, by, h, away(), arrived);
    for_each_used_expert(*this, scratch, starts, [&](const ExpertRows& e) {
      const ConstStored x = arrived.at(e.first * h);
      e.product.forward(h, f, x, t.weight.at(e.expert * f * h), nullptr, gate.at(e.first * f));
      e.product.forward(h, f, x, t.up.at(e.expert * f * h), nullptr, up.at(e.first * f));
    });
    gated_forward(ctx, decoder.mlp.activation, {by.rows, f, f}, gate, up, act);
    for_each_used_expert(*this, scratch, starts, [&](const ExpertRows& e) {
      e.product.forward(f, h, act.at(e.first * f), t.down.at(e.expert * h * f), nullptr,
                        sorted.at(e.first * h));
    });
    unsort_arrivals(ctx, by, h, sorted, away());
  }

  void forward_end(Stored out) const {
    const Stored returned = saved(s_.returned);
    convert(ctx, lanes().all_places() * h, returned, home());
    combine_rows(ctx, routes_, h, routes_.weights, returned, out, false);
  }

  /// `dy` is the gradient of the mixture's output. Backward adds to `dx` if `add`, and otherwise
  /// overwrites it.
  void backward_begin(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                      ConstStored dy) const {
    weigh_gradients(ctx, routes_, lanes(), h, dy, saved(s_.returned), home(),
                    divided() ? pair_weights() : Stored{Dtype::fp32, scratch.fp32(w.dweights)});
  }

  void backward(const Scratch& scratch, const MixtureBackwardWorkspace& w) const {
    const std::int64_t f = moe_.ffn, matrix = h * f;
    const std::vector<std::int32_t> starts = this->starts();
    const ExpertArrivals by = arrivals(starts.back());
    const Stored sorted = scratch[w.rows], act = scratch[w.act], arrived = saved(s_.arrived);
    const Stored dgate = scratch[w.dgate_up], dup = scratch[w.dup];
    sort_arrivals(ctx, by, h, away(), sorted);
    for_each_used_expert(*this, scratch, starts, [&](const ExpertRows& e) {
      e.product.backward_input(f, h, sorted.at(e.first * h), t.down.at(e.expert * matrix),
                               act.at(e.first * f));
    });
    gated_backward(ctx, decoder.mlp.activation, {by.rows, f, f}, saved(s_.gate), saved(s_.up), act,
                   act, dgate, dup);
    for_each_expert(*this, scratch, starts, [&](const ExpertRows& e) {
      expert_weight_backward(*this, e, f, h, sorted, act, g.down);
      expert_weight_backward(*this, e, h, f, dup, arrived, g.up);
      expert_weight_backward(*this, e, h, f, dgate, arrived, g.weight);
      if (e.count == 0) return;
      const Stored dx = sorted.at(e.first * h);
      e.product.backward_input(h, f, dup.at(e.first * f), t.up.at(e.expert * matrix), dx);
      e.product.backward_input(h, f, dgate.at(e.first * f), t.weight.at(e.expert * matrix), dx,
                               true);
    });
    unsort_arrivals(ctx, by, h, sorted, away());
  }

  void backward_end(const Scratch& scratch, const MixtureBackwardWorkspace& w, Stored dx,
                    bool add) const {
    if (!divided()) return combine_rows(ctx, routes_, h, nullptr, home(), dx, add);
    combine_lane(ctx, routes_, lanes(), h, home(), pair_weights(), dx, add,
                 scratch.fp32(w.dweights));
  }

 private:
  Stored home() const { return {dims.dtype, b.home}; }
  Stored away() const { return {dims.dtype, b.away}; }
  // Where ranks divide layers as well, this rank has the rows of its lane, and otherwise all.
  PairLanes lanes() const { return {row_lanes(dims), saved_ints(s_.lane_sources)}; }
  Stored pair_weights() const { return {dims.dtype, b.pair_weights}; }
  ExpertArrivals arrivals(std::int64_t arrived) const {
    return {dims.expert_part.ranks, own(), arrived, saved_ints(s_.arrivals),
            saved_ints(s_.own_starts)};
  }
  // After arrange_arrivals: the first place of each of this rank's experts, and the rows.
  std::vector<std::int32_t> starts() const { return on_host(ctx, arrivals(0).starts, own() + 1); }
  std::int64_t own() const { return moe_.experts / dims.expert_part.ranks; }

  const MoeSpec& moe_;
  const MixtureSaved& s_;
  const Routes routes_;
  const ConstStored x_;
};

}  // namespace shardmark
