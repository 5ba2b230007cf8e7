// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <fmt/core.h>

#include <core/nn/layers/activation.hpp>
#include <core/nn/models/divided_experts.hpp>
#include <core/nn/models/expert_products.hpp>
#include <core/nn/models/transformer.hpp>

namespace shardmark {

std::vector<std::int64_t> transformer_routed_parts(const Context& ctx, const TransformerDims& dims,
                                                   const std::int32_t* sent,
                                                   const std::int32_t* received) {
  const MoeSpec& moe = dims.decoder->moe;
  const std::int64_t ranks = dims.expert_part.ranks, of_rank = moe.experts / ranks;
  std::vector<std::int64_t> parts;
  for (const std::int32_t* counts : {sent, received}) {
    const std::vector<std::int32_t> rows = on_host(ctx, counts, moe.experts);
    for (auto first = rows.begin(); first != rows.end(); first += of_rank)
      parts.push_back(std::accumulate(first, first + of_rank, std::int64_t{0}));
  }
  const std::int64_t room = arrivals_room(dims), balanced = arriving_pairs(dims);
  const std::int64_t rows = std::accumulate(parts.begin() + ranks, parts.end(), std::int64_t{0});
  if (rows > room)
    throw DeckError(fmt::format(
        "experts: {} rows arrive at a rank, {:.2f} times as many as with balanced routing, and "
        "model.expert_room = {:g} has room for {}: set a larger one",
        rows, static_cast<double>(rows) / static_cast<double>(balanced), moe.room, room));
  for (std::int64_t& part : parts) part *= dims.hidden;
  return parts;
}

ExpertArrivals DividedExperts::arrivals(std::int64_t rows) const {
  const auto ints = [&](std::int64_t at) {
    return reinterpret_cast<std::int32_t*>(c_.saved_at(at));
  };
  return {c_.dims.expert_part.ranks, own(), rows, ints(s_.arrivals), ints(s_.own_starts)};
}

std::vector<std::int32_t> DividedExperts::starts() const {
  return on_host(c_.ctx, arrivals(0).starts, own() + 1);
}

PairLanes DividedExperts::lanes() const {
  const RowLanes l = row_lanes(c_.dims);
  return {l.count, l.own, l.places, reinterpret_cast<std::int32_t*>(c_.saved_at(s_.lane_sources))};
}

void DividedExperts::forward_begin() const {
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

void DividedExperts::forward(Tensors t, const Scratch& scratch,
                             const MixtureForwardWorkspace& w) const {
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

void DividedExperts::forward_end(Stored out) const {
  const Stored returned = c_.saved(s_.returned);
  const std::int64_t rows = folds() ? lanes().all_places() : routes_.pairs();
  convert(c_.ctx, rows * c_.h, returned, home());
  combine_rows(c_.ctx, routes_, c_.h, routes_.weights, returned, out, false);
}

void DividedExperts::backward_begin(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                                    ConstStored dy) const {
  if (folds())
    return weigh_lanes(c_.ctx, routes_, lanes(), c_.h, dy, c_.saved(s_.returned), home(),
                       pair_weights());
  weigh_gradients(c_.ctx, routes_, c_.h, dy, c_.saved(s_.returned), home(),
                  scratch.fp32(w.dweights));
}

void DividedExperts::backward(Tensors t, Gradients g, const Scratch& scratch,
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
    e.product.backward_input(h, f, dgate.at(e.first * f), t.weight.at(e.expert * matrix), dx, true);
  });
  unsort_arrivals(c_.ctx, by, h, rows, away());
}

void DividedExperts::backward_end(const Scratch& scratch, const MixtureBackwardWorkspace& w,
                                  Stored dx, bool add) const {
  if (!folds()) return combine_rows(c_.ctx, routes_, c_.h, nullptr, home(), dx, add);
  combine_lane(c_.ctx, routes_, lanes(), c_.h, home(), pair_weights(), dx, add,
               scratch.fp32(w.dweights));
}

}  // namespace shardmark
