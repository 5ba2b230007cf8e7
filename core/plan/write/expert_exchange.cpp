// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deck/checked.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <core/plan/write/expert_exchange.hpp>

namespace shardmark {

ExpertExchange::ExpertExchange(Program& program, PlanWriter& writer, TensorExchange& tensors)
    : p_(program), w_(writer), lanes_(program, writer, tensors) {
  if (!divides()) return;
  const TransformerDims d = transformer_dims(p_);
  const auto elems = [&](std::int64_t pairs) {
    return checked_mul(pairs, d.hidden, "rows of experts");
  };
  const RowLanes lanes = row_lanes(d);
  std::int64_t smallest = elems(pairs_to(d, 0, 0));
  for (std::int64_t place = 0; place < d.expert_part.ranks; ++place) {
    to_.push_back(elems(pairs_to(d, lanes.own, place)));
    from_.push_back(elems(pairs_to(d, lane_at(d, place), d.expert_part.rank)));
    own_ += to_.back();
    for (std::int64_t lane = 0; lane < lanes.count; ++lane)
      smallest = std::min(smallest, elems(pairs_to(d, lane, place)));
  }
  largest_ = elems(largest_part(d));
  even_ = smallest == largest_;
  routes_ = d.decoder->moe.routing == Routing::learned;
  first_own_ = elems(lanes.own * lanes.places);
  if (routes_) own_ = elems(lanes.places);
  const std::int64_t experts = d.decoder->moe.experts;
  counts_sent_ = w_.slot("counts.sent", Category::activation, Dtype::int32, experts);
  counts_received_ = w_.slot("counts.received", Category::activation, Dtype::int32, experts);
  home_ = w_.slot("rows.home", Category::activation, d.dtype, elems(lanes.all_places()));
  away_ = w_.slot("rows.away", Category::activation, d.dtype, elems(arrivals_room(d)));
  p_.slots[static_cast<std::size_t>(away_)].partly = routes_;
  lanes_.declare(d, home_);
}

void ExpertExchange::begin(bool forward, int module) {
  module_ = module;
  w_.acquire(home_);
  if (lanes_.divides()) lanes_.begin(forward);
  if (!forward) return;
  w_.acquire(counts_sent_);
  w_.acquire(counts_received_);
}

void ExpertExchange::end(bool forward) {
  w_.release(home_);
  if (lanes_.divides()) lanes_.end(forward);
  if (!forward) return;
  w_.release(counts_received_);
  w_.release(counts_sent_);
}

void ExpertExchange::send_counts() {
  w_.collective(Op::all_to_all, Reduction::none, w_.read(counts_sent_), w_.write(counts_received_),
                {}, p_.expert_group);
}

Operand ExpertExchange::own_rows(bool writes) const {
  return w_.part(home_, first_own_, own_, !writes, writes);
}

// If all parts are equal, the call needs no list of them.
void ExpertExchange::send(Operand from, Operand into, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from_each, Routed routed) {
  if (routes_ || !even_) {
    Event& e = w_.exchange(from, into, to, from_each, largest_, {}, p_.expert_group);
    if (!routes_) return;
    e.routed = routed;
    e.module = module_;
    return;
  }
  w_.collective(Op::all_to_all, Reduction::none, from, into, {}, p_.expert_group);
}

void ExpertExchange::send_away(bool forward) {
  if (lanes_.divides() && !forward) lanes_.sum();
  w_.acquire(away_);
  send(own_rows(false), w_.write(away_), to_, from_, Routed::away);
}

void ExpertExchange::send_home(bool forward) {
  send(w_.read(away_), own_rows(true), from_, to_, Routed::home);
  w_.release(away_);
  if (lanes_.divides() && forward) lanes_.gather();
}

}  // namespace shardmark
