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
class DividedExperts {
 public:
  DividedExperts(const ModuleCall& call, const MixtureSaved& saved, const Routes& routes,
                 ConstStored x)
      : c_(call), moe_(call.decoder.moe), s_(saved), routes_(routes), x_(x) {}

  void forward_begin() const {
    if (folds()) {
      place_in_lanes(c_.ctx, routes_, lanes());
      count_lane_rows(c_.ctx, routes_, lanes(), c_.b.counts_sent);
    } else {
      count_rows(c_.ctx, routes_, c_.b.counts_sent);
    }
    if (!c_.b.expert_rows.empty()) {
      const auto counts = on_host(c_.ctx, c_.b.counts_sent, moe_.experts);
      for (std::size_t e = 0; e < counts.size(); ++e) c_.b.expert_rows[e] += counts[e];
    }
    if (!folds()) return collect_rows(c_.ctx, routes_, c_.h, x_, home());
    collect_lane(c_.ctx, routes_, lanes(), c_.h, x_, home(),
                 {c_.b.pair_tokens, c_.b.pair_choices, pair_weights(), c_.b.lane_pairs});
  }

  void forward(Tensors t, const Scratch& scratch, const MixtureForwardWorkspace& w) const {
    const std::int64_t h = c_.h, f = moe_.ffn;
    const Stored rows = scratch[w.rows], act = scratch[w.act], arrived = c_.saved(s_.arrived);
    const Stored gate = c_.saved(s_.gate), up = c_.saved(s_.up);
    arrange_arrivals(c_.ctx, arrivals(0), c_.b.counts_received);
    const std::vector<std::int32_t> starts = this->starts();
    const ExpertArrivals by = arrivals(starts.back());
    if (moe_.routing == Routing::balanced && by.rows != arriving_pairs(c_.dims))
      throw PlanError(
          fmt::format("experts: {} rows arrived where the plan has {}: the ranks do not "
                      "route alike",
                      by.rows, arriving_pairs(c_.dims)));
    sort_arrivals(c_.ctx, by, h, away(), arrived);
    for_each_used_expert(c_, scratch, starts, [&](const ExpertRows& e) {
      const ConstStored x = arrived.at(e.first * h);
      e.product.forward(h, f, x, t.weight.at(e.expert * f * h), nullptr, gate.at(e.first * f));
      e.product.forward(h, f, x, t.up.at(e.expert * f * h), nullptr, up.at(e.first * f));
    });
    gated_forward(c_.ctx, c_.decoder.mlp.activation, {by.rows, f, f}, gate, up, act);
    for_each_used_expert(c_, scratch, starts, [&](const ExpertRows& e) {
      e.product.forward(f, h, act.at(e.first * f), t.down.at(e.expert * h * f), nullptr,
                        rows.at(e.first * h));
    });
    unsort_arrivals(c_.ctx, by, h, rows, away());
  }

  void forward_end(Stored out) const {
    const Stored returned = c_.saved(s_.returned);
    const std::int64_t rows = folds() ? lanes().all_places() : routes_.pairs();
    convert(c_.ctx, rows * c_.h, returned, home());
    combine_rows(c_.ctx, routes_, c_.h, routes_.weights, returned, out, false);
  }

  /// `dy` is the gradient of the mixture's output. Backward adds to `dx` if `add`, and otherwise
  /// overwrites it.
  void backward_begin(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                      ConstStored dy) const {
    if (folds())
      return weigh_lanes(c_.ctx, routes_, lanes(), c_.h, dy, c_.saved(s_.returned), home(),
                         pair_weights());
    weigh_gradients(c_.ctx, routes_, c_.h, dy, c_.saved(s_.returned), home(),
                    scratch.fp32(w.dweights));
  }

  void backward(Tensors t, Gradients g, const Scratch& scratch,
                const MixtureBackwardWorkspace& w) const {
    const std::int64_t h = c_.h, f = moe_.ffn, matrix = h * f;
    const std::vector<std::int32_t> starts = this->starts();
    const ExpertArrivals by = arrivals(starts.back());
    const Stored rows = scratch[w.rows], act = scratch[w.act], arrived = c_.saved(s_.arrived);
    const Stored dgate = scratch[w.dgate_up], dup = scratch[w.dup];
    sort_arrivals(c_.ctx, by, h, away(), rows);
    for_each_used_expert(c_, scratch, starts, [&](const ExpertRows& e) {
      e.product.backward_input(f, h, rows.at(e.first * h), t.down.at(e.expert * matrix),
                               act.at(e.first * f));
    });
    gated_backward(c_.ctx, c_.decoder.mlp.activation, {by.rows, f, f}, c_.saved(s_.gate),
                   c_.saved(s_.up), act, act, dgate, dup);
    for_each_expert(c_, scratch, starts, [&](const ExpertRows& e) {
      expert_weight_backward(c_, e, f, h, rows, act, g.down, g.accumulate);
      expert_weight_backward(c_, e, h, f, dup, arrived, g.up, g.accumulate);
      expert_weight_backward(c_, e, h, f, dgate, arrived, g.weight, g.accumulate);
      if (e.count == 0) return;
      const Stored dx = rows.at(e.first * h);
      e.product.backward_input(h, f, dup.at(e.first * f), t.up.at(e.expert * matrix), dx);
      e.product.backward_input(h, f, dgate.at(e.first * f), t.weight.at(e.expert * matrix), dx,
                               true);
    });
    unsort_arrivals(c_.ctx, by, h, rows, away());
  }

  void backward_end(const Scratch& scratch, const MixtureBackwardWorkspace& w, Stored dx,
                    bool add) const {
    if (!folds()) return combine_rows(c_.ctx, routes_, c_.h, nullptr, home(), dx, add);
    combine_lane(c_.ctx, routes_, lanes(), c_.h, home(), pair_weights(), dx, add,
                 scratch.fp32(w.dweights));
  }

 private:
  Stored home() const { return {c_.dims.dtype, c_.b.home}; }
  Stored away() const { return {c_.dims.dtype, c_.b.away}; }
  // Whether ranks divide layers as well. This rank's rows are those of its lane then.
  bool folds() const { return c_.dims.part.cuts(); }
  PairLanes lanes() const { return {row_lanes(c_.dims), c_.saved_ints(s_.lane_sources)}; }
  Stored pair_weights() const { return {c_.dims.dtype, c_.b.pair_weights}; }
  ExpertArrivals arrivals(std::int64_t rows) const {
    return {c_.dims.expert_part.ranks, own(), rows, c_.saved_ints(s_.arrivals),
            c_.saved_ints(s_.own_starts)};
  }
  // After arrange_arrivals: the first place of each of this rank's experts, and the rows.
  std::vector<std::int32_t> starts() const {
    return on_host(c_.ctx, arrivals(0).starts, own() + 1);
  }
  std::int64_t own() const { return moe_.experts / c_.dims.expert_part.ranks; }

  const ModuleCall& c_;
  const MoeSpec& moe_;
  const MixtureSaved& s_;
  const Routes routes_;
  const ConstStored x_;
};

}  // namespace shardmark
