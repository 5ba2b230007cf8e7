// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/write/expert_exchange.hpp>

namespace shardmark {

ExpertExchange::ExpertExchange(Program& program, PlanWriter& writer, TensorExchange& tensors)
    : p_(program), w_(writer), tensors_(tensors) {
  slots_.fill(no_slot);
  if (!divides()) return;
  const TransformerDims d = transformer_dims(p_);
  const auto elems = [&](std::int64_t pairs) {
    return checked_mul(pairs, d.hidden, "rows of experts");
  };
  lanes_ = row_lanes(d);
  const std::int64_t ranks = d.expert_part.ranks;
  for (std::int64_t place = 0; place < ranks; ++place) {
    to_.push_back(elems(pairs_to(d, lanes_.own, place)));
    from_.push_back(elems(pairs_from(d, place)));
    own_ += to_.back();
  }
  largest_ = elems(largest_part(d));
  routes_ = d.decoder->moe.routing == Routing::learned;
  if (routes_) own_ = elems(lanes_.places);
  // The last lane, and the last experts, have fewest pairs.
  even_ = !routes_ && elems(pairs_to(d, lanes_.count - 1, ranks - 1)) == largest_;
  const auto declare = [&](B buffer, const char* name, Dtype dtype, std::int64_t count) {
    slots_[buffer] = w_.slot(name, Category::activation, dtype, count);
  };
  const std::int64_t experts = d.decoder->moe.experts, places = lanes_.all_places();
  declare(B::counts_sent, "counts.sent", Dtype::int32, experts);
  declare(B::counts_received, "counts.received", Dtype::int32, experts);
  declare(B::home, "rows.home", d.dtype, elems(places));
  declare(B::away, "rows.away", d.dtype, elems(arrivals_room(d)));
  p_.slots[static_cast<std::size_t>(slots_[B::away])].partly = routes_;
  if (!p_.folds()) return;
  declare(B::pair_tokens, "pairs.tokens", Dtype::int64, places);
  declare(B::pair_choices, "pairs.choices", Dtype::int64, places);
  declare(B::pair_weights, "pairs.weights", d.dtype, places);
  declare(B::lane_pairs, "lanes.pairs", Dtype::int64, lanes_.count);
}

void ExpertExchange::begin(bool forward, int module) {
  module_ = module;
  w_.ensure({slots_[B::home], slots_[B::pair_weights]});
  if (forward)
    w_.ensure({slots_[B::pair_tokens], slots_[B::pair_choices], slots_[B::lane_pairs],
               slots_[B::counts_sent], slots_[B::counts_received]});
}

void ExpertExchange::end() {
  w_.drop({slots_[B::home], slots_[B::pair_weights], slots_[B::pair_tokens],
           slots_[B::pair_choices], slots_[B::lane_pairs], slots_[B::counts_received],
           slots_[B::counts_sent]});
}

void ExpertExchange::send_counts() {
  w_.collective(Op::all_to_all, Reduction::none, w_.read(slots_[B::counts_sent]),
                w_.write(slots_[B::counts_received]), {}, p_.expert_group);
}

Operand ExpertExchange::lane(B buffer, std::int64_t number) const {
  const std::int64_t elems = w_[slots_[buffer]].elems / lanes_.count;
  return w_.update(slots_[buffer], number * elems, elems);
}

Operand ExpertExchange::own_rows(bool writes) const {
  return w_.part(slots_[B::home], lane(B::home, lanes_.own).offset, own_, !writes, writes);
}

// If all parts are equal, the call needs no list of them.
void ExpertExchange::send(Operand from, Operand into, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from_each, Routed routed) {
  if (even_) {
    w_.collective(Op::all_to_all, Reduction::none, from, into, {}, p_.expert_group);
    return;
  }
  Event& e = w_.exchange(from, into, to, from_each, largest_, {}, p_.expert_group);
  if (!routes_) return;
  e.routed = routed;
  e.module = module_;
}

void ExpertExchange::send_away(bool forward) {
  if (p_.folds() && !forward)
    for (const B buffer : {B::pair_weights, B::home})
      for (std::int64_t l = 0; l < lanes_.count; ++l) tensors_.sum(lane(buffer, l));
  w_.acquire(slots_[B::away]);
  send(own_rows(false), w_.write(slots_[B::away]), to_, from_, Routed::away);
}

// DeepSpeed asks how many rows each lane has before it gathers them, for each tensor again.
void ExpertExchange::send_home(bool forward) {
  send(w_.read(slots_[B::away]), own_rows(true), from_, to_, Routed::home);
  w_.release(slots_[B::away]);
  if (!p_.folds() || !forward) return;
  for (const B buffer : {B::home, B::pair_tokens, B::pair_choices, B::pair_weights})
    for (const B gathered : {B::lane_pairs, buffer})
      tensors_.gather(lane(gathered, lanes_.own), w_.write(slots_[gathered]));
}

}  // namespace shardmark
