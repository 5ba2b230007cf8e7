// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <core/plan/deck/checked.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <core/plan/write/expert_exchange.hpp>

namespace shardmark {

ExpertExchange::ExpertExchange(Program& program, PlanWriter& writer) : p_(program), w_(writer) {
  if (!divides()) return;
  const TransformerDims d =
      transformer_dims(p_.model.spec, p_.batch.micro, p_.precision.computes_in());
  const auto elems = [&](std::int64_t pairs) {
    return checked_mul(pairs, d.hidden, "rows of experts");
  };
  for (std::int64_t place = 0; place < d.expert_part.ranks; ++place) {
    to_.push_back(elems(pairs_to(d, place)));
    from_.push_back(elems(pairs_to(d, d.expert_part.rank)));
  }
  largest_ = *std::max_element(to_.begin(), to_.end());
  const std::int64_t experts = d.decoder->moe.experts;
  counts_sent_ = w_.slot("counts.sent", Category::activation, Dtype::int32, experts);
  counts_received_ = w_.slot("counts.received", Category::activation, Dtype::int32, experts);
  home_ = w_.slot("rows.home", Category::activation, d.dtype, elems(pairs_of(d)));
  away_ = w_.slot("rows.away", Category::activation, d.dtype, elems(arriving_pairs(d)));
}

void ExpertExchange::begin(bool forward) {
  w_.acquire(home_);
  if (!forward) return;
  w_.acquire(counts_sent_);
  w_.acquire(counts_received_);
}

void ExpertExchange::end(bool forward) {
  w_.release(home_);
  if (!forward) return;
  w_.release(counts_received_);
  w_.release(counts_sent_);
}

void ExpertExchange::send_counts() {
  const std::array operands{w_.read(counts_sent_), w_.write(counts_received_)};
  w_.collective(Op::all_to_all, Reduction::none, Dtype::int32, w_[counts_sent_].elems, operands, {},
                p_.expert_group);
}

// If all parts are equal, the call needs no list of them.
void ExpertExchange::send(Operand from, Operand into, const std::vector<std::int64_t>& to,
                          const std::vector<std::int64_t>& from_each) {
  const auto whole = [&](std::int64_t part) { return part == largest_; };
  if (!std::all_of(to.begin(), to.end(), whole) ||
      !std::all_of(from_each.begin(), from_each.end(), whole)) {
    w_.exchange(from, into, to, from_each, largest_, {}, p_.expert_group);
    return;
  }
  const std::array operands{from, into};
  w_.collective(Op::all_to_all, Reduction::none, w_[from.slot].dtype, from.elems, operands, {},
                p_.expert_group);
}

void ExpertExchange::send_away() {
  w_.acquire(away_);
  send(w_.read(home_), w_.write(away_), to_, from_);
}

void ExpertExchange::send_home() {
  send(w_.read(away_), w_.write(home_), from_, to_);
  w_.release(away_);
}

}  // namespace shardmark
