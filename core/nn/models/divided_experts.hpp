// SPDX-License-Identifier: Apache-2.0
// A rank's experts, if ranks divide those of a layer. A pass has three calls, between which ranks
// send each other rows: the first sorts this rank's rows by their experts, into `home`; the second
// computes what has arrived in `away`, where it leaves what is to be sent back; and the third
// combines what comes home.
#pragma once

#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/divided_experts.hpp>
#include <core/nn/models/expert_products.hpp>

namespace shardmark {

/// One call of the experts, whose input is `x` and whose routes are made.
class DividedExperts : public BlockCall {
 public:
  DividedExperts(const BlockCall& call, const Routes& routes, ConstStored x)
      : BlockCall(call), routes_(routes), x_(x) {}

  void forward_begin() const {
    if (divided()) place_in_lanes(ctx, routes_, lanes());
    auto* const sent = b.as<std::int32_t>(ModuleBuffer::counts_sent);
    count_rows(ctx, routes_, lanes(), sent);
    if (!b.expert_rows.empty()) {
      const auto counts = on_host(ctx, sent, moe_.experts);
      for (std::size_t e = 0; e < counts.size(); ++e) b.expert_rows[e] += counts[e];
    }
    if (!divided()) return collect_rows(ctx, routes_, h, x_, home());
    collect_lane(ctx, routes_, lanes(), h, x_, home(),
                 {b.as<std::int64_t>(ModuleBuffer::pair_tokens),
                  b.as<std::int64_t>(ModuleBuffer::pair_choices), pair_weights(),
                  b.as<std::int64_t>(ModuleBuffer::lane_pairs)});
  }

  void forward() const {
    const Scratch scratch = this->scratch();
    const std::int64_t f = moe_.ffn;
    const Stored sorted = scratch[w_.rows], act = scratch[w_.act], arrived = saved(s_.arrived);
    const Stored gate = saved(s_.gate), up = saved(s_.up);
    arrange_arrivals(ctx, arrivals(0), b.as<std::int32_t>(ModuleBuffer::counts_received));
    const ExpertProducts products = this->products();
    const ExpertArrivals by = arrivals(products.rows());
    if (moe_.routing == Routing::balanced && by.rows != arriving_pairs(dims))
      throw PlanError(
          fmt::format("experts: {} rows arrived where the plan has {}: the ranks do not "
                      "route alike",
                      by.rows, arriving_pairs(dims)));
    sort_arrivals(ctx, by, h, away(), arrived);
    products.forward(gate_, arrived, gate);
    products.forward(up_, arrived, up);
    gated_forward(ctx, decoder.mlp.activation, {by.rows, f, f}, gate, up, act);
    products.forward(down_, act, sorted);
    unsort_arrivals(ctx, by, h, sorted, away());
  }

  void forward_end(Stored out) const {
    const Stored returned = saved(s_.returned);
    convert(ctx, lanes().all_places() * h, returned, home());
    combine_rows(ctx, routes_, h, routes_.weights, returned, out, false);
  }

  /// `dy` is the gradient of the mixture's output. Backward adds to `dx` if `add`, and otherwise
  /// overwrites it.
  void backward_begin(ConstStored dy) const {
    weigh_gradients(ctx, routes_, lanes(), h, dy, saved(s_.returned), home(),
                    divided() ? pair_weights() : Stored{Dtype::fp32, scratch().fp32(w_.dweights)});
  }

  void backward() const {
    const Scratch scratch = this->scratch();
    const std::int64_t f = moe_.ffn;
    const ExpertProducts products = this->products();
    const ExpertArrivals by = arrivals(products.rows());
    const Stored sorted = scratch[w_.rows], act = scratch[w_.act], arrived = saved(s_.arrived);
    const Stored dgate = scratch[w_.dgate_up], dup = scratch[w_.dup];
    sort_arrivals(ctx, by, h, away(), sorted);
    products.backward_input(down_, sorted, act);
    gated_backward(ctx, decoder.mlp.activation, {by.rows, f, f}, saved(s_.gate), saved(s_.up), act,
                   act, dgate, dup);
    products.backward_weight(down_, sorted, act);
    products.backward_weight(up_, dup, arrived);
    products.backward_weight(gate_, dgate, arrived);
    products.backward_input(up_, dup, sorted);
    products.backward_input(gate_, dgate, sorted, true);
    unsort_arrivals(ctx, by, h, sorted, away());
  }

  void backward_end(Stored dx, bool add) const {
    if (!divided()) return combine_rows(ctx, routes_, h, nullptr, home(), dx, add);
    combine_lane(ctx, routes_, lanes(), h, home(), pair_weights(), dx, add,
                 scratch().fp32(w_.dweights));
  }

 private:
  Stored home() const { return tensor(ModuleBuffer::home); }
  Stored away() const { return tensor(ModuleBuffer::away); }
  // Where ranks divide layers as well, this rank has the rows of its lane, and otherwise all.
  PairLanes lanes() const { return {row_lanes(dims), saved_ints(s_.lane_sources)}; }
  Stored pair_weights() const { return tensor(ModuleBuffer::pair_weights); }
  ExpertArrivals arrivals(std::int64_t arrived) const {
    return {dims.expert_part.ranks, own(), arrived, saved_ints(s_.arrivals),
            saved_ints(s_.own_starts)};
  }
  // Those of this rank's experts with the rows that arrange_arrivals has counted.
  ExpertProducts products() const { return {*this, on_host(ctx, arrivals(0).starts, own() + 1)}; }
  std::int64_t own() const { return moe_.experts / dims.expert_part.ranks; }

  const MoeSpec& moe_ = decoder.moe;
  const MixtureSaved& s_ = s.mixture;
  const MixtureWorkspace& w_ = w.mixture;
  const Routes routes_;
  const ConstStored x_;
  const ExpertTensors gate_{h, moe_.ffn, t.weight, nullptr, g.weight, nullptr};
  const ExpertTensors up_{h, moe_.ffn, t.up, nullptr, g.up, nullptr};
  const ExpertTensors down_{moe_.ffn, h, t.down, nullptr, g.down, nullptr};
};

}  // namespace shardmark
