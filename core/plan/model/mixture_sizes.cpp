// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark {

std::int64_t pairs_of(const TransformerDims& d) {
  return size_mul(d.rows(), d.decoder->moe.per_token);
}

std::int64_t balance_elems(const TransformerDims& d, std::int64_t layers) {
  std::int64_t sparse = 0;
  for (std::int64_t l = 0; l < layers; ++l) sparse += has_experts(*d.decoder, l);
  return size_mul(sparse, 2 * d.decoder->moe.experts);
}

namespace {

// How many pairs of a lane `count` experts have, from `first` on. Expert e has the pairs e, e + E,
// e + 2 E ... of a micro-batch.
std::int64_t pairs_in_lane(const TransformerDims& d, std::int64_t lane, std::int64_t first,
                           std::int64_t count) {
  const std::int64_t experts = d.decoder->moe.experts, pairs = pairs_of(d);
  const std::int64_t all = d.part.ranks, fewest = pairs / experts;
  const auto of_expert = [&](std::int64_t rows) { return (rows + all - 1 - lane) / all; };
  const std::int64_t more = std::clamp<std::int64_t>(pairs % experts - first, 0, count);
  return size_mul(more, of_expert(fewest + 1)) + size_mul(count - more, of_expert(fewest));
}

// The most of `pairs` pairs of `experts` experts that a lane has, however they are routed: the
// first one has a pair more than the last one of each expert whose pairs the number of lanes does
// not divide.
std::int64_t most_in_lane(const TransformerDims& d, std::int64_t pairs, std::int64_t experts) {
  return (pairs + size_mul(experts, d.part.ranks - 1)) / d.part.ranks;
}

}  // namespace

RowLanes row_lanes(const TransformerDims& d) {
  const std::int64_t experts = d.decoder->moe.experts, pairs = pairs_of(d);
  const bool balanced = d.decoder->moe.routing == Routing::balanced;
  return {d.part.ranks, d.part.rank,
          balanced ? pairs_in_lane(d, 0, 0, experts)
                   : most_in_lane(d, pairs, std::min(experts, pairs))};
}

std::int64_t pairs_to(const TransformerDims& d, std::int64_t lane, std::int64_t place) {
  const std::int64_t own = d.decoder->moe.experts / d.expert_part.ranks;
  return pairs_in_lane(d, lane, place * own, own);
}

// The ranks that divide experts and those that divide layers are blocks of the world.
std::int64_t pairs_from(const TransformerDims& d, std::int64_t place) {
  const std::int64_t all = d.part.ranks, first = d.part.rank - d.expert_part.rank % all;
  return pairs_to(d, (first + all + place) % all, d.expert_part.rank);
}

std::int64_t arriving_pairs(const TransformerDims& d) {
  std::int64_t pairs = 0;
  for (std::int64_t place = 0; place < d.expert_part.ranks; ++place) pairs += pairs_from(d, place);
  return pairs;
}

std::int64_t arrivals_room(const TransformerDims& d) {
  const MoeSpec& moe = d.decoder->moe;
  const std::int64_t balanced = arriving_pairs(d), ranks = d.expert_part.ranks;
  if (moe.routing == Routing::balanced) return balanced;
  const double room = std::ceil(moe.room * static_cast<double>(balanced));
  return std::min(static_cast<std::int64_t>(room), size_mul(largest_part(d), ranks));
}

// With learned routing all tokens may choose as many of a rank's experts as they can. Otherwise the
// first lane, and the first experts, have most pairs.
std::int64_t largest_part(const TransformerDims& d) {
  const MoeSpec& moe = d.decoder->moe;
  if (moe.routing == Routing::balanced) return pairs_to(d, 0, 0);
  const std::int64_t own = moe.experts / d.expert_part.ranks;
  return most_in_lane(d, size_mul(d.rows(), std::min(moe.per_token, own)), own);
}

namespace {

void take_arrivals(const TransformerDims& d, Offsets& o, MixtureSaved& s) {
  const std::int64_t arriving = arrivals_room(d), f = d.decoder->moe.ffn;
  s.arrived = o.take(size_mul(arriving, d.hidden));
  s.gate = o.take(size_mul(arriving, f));
  s.up = o.take(size_mul(arriving, f));
  s.arrivals = o.take_fp32(arriving);
  s.own_starts = o.take_fp32(d.decoder->moe.experts / d.expert_part.ranks + 1);
  const RowLanes by = row_lanes(d);
  s.returned = o.take(size_mul(by.all_places(), d.hidden));
  if (by.count > 1) s.lane_sources = o.take_fp32(by.all_places());
}

// The rows of which experts compute products.
std::int64_t expert_rows(const TransformerDims& d) {
  return d.expert_part.cuts() ? arrivals_room(d) : pairs_of(d);
}

}  // namespace

MixtureSaved mixture_saved(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  const std::int64_t rows = d.rows(), pairs = pairs_of(d);
  MixtureSaved s;
  s.probabilities = o.take_fp32(size_mul(rows, moe.experts));
  s.weights = o.take_fp32(pairs);
  s.chosen = o.take_fp32(pairs);  // integers of the same size
  s.places = o.take_fp32(pairs);
  s.sources = o.take_fp32(pairs);
  s.starts = o.take_fp32(moe.experts + 1);
  if (d.expert_part.cuts())
    take_arrivals(d, o, s);
  else
    s.gate_up = o.take(size_mul(pairs, 2 * moe.ffn));
  if (moe.shared_ffn == 0) return s;
  s.shared_gate = o.take(size_mul(rows, moe.shared_ffn));
  s.shared_up = o.take(size_mul(rows, moe.shared_ffn));
  if (moe.shared_factor) {
    s.shared_out = o.take(size_mul(rows, d.hidden));
    s.shared_factor = o.take_fp32(rows);
  }
  s.sum = o.take(size_mul(rows, d.hidden));
  return s;
}

MixtureWorkspace mixture_forward_workspace(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  MixtureWorkspace w;
  Offsets shared = o;
  w.rows = o.take(size_mul(expert_rows(d), d.hidden));
  w.act = o.take(size_mul(expert_rows(d), moe.ffn));
  w.shared_act = shared.take(size_mul(d.rows(), moe.shared_ffn));
  if (shared.end() > o.end()) o = shared;
  return w;
}

MixtureWorkspace mixture_backward_workspace(const TransformerDims& d, Offsets& o) {
  const MoeSpec& moe = d.decoder->moe;
  const std::int64_t rows = d.rows(), pairs = pairs_of(d);
  MixtureWorkspace w;
  w.dweights = o.take_fp32(pairs);
  w.dlogits = o.take(size_mul(rows, moe.experts));
  if (moe.balance_loss > 0) w.dbalance = o.take_fp32(moe.experts);
  if (moe.shared_ffn > 0 && moe.shared_factor) {
    w.dfactor = o.take_fp32(rows);
    w.dshared = o.take(size_mul(rows, d.hidden));
  }
  // The shared expert runs backward after the others, or before them.
  Offsets shared = o;
  const std::int64_t computed = expert_rows(d);
  w.rows = o.take(size_mul(computed, d.hidden));
  w.act = o.take(size_mul(computed, moe.ffn));
  if (d.expert_part.cuts()) {
    w.dgate_up = o.take(size_mul(computed, moe.ffn));
    w.dup = o.take(size_mul(computed, moe.ffn));
  } else {
    w.dgate_up = o.take(size_mul(computed, 2 * moe.ffn));
  }
  w.shared_act = shared.take(size_mul(rows, moe.shared_ffn));
  w.dshared_gate = shared.take(size_mul(rows, moe.shared_ffn));
  w.dshared_up = shared.take(size_mul(rows, moe.shared_ffn));
  if (shared.end() > o.end()) o = shared;
  return w;
}

}  // namespace shardmark
