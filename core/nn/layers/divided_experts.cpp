// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/layers/divided_experts.hpp>

namespace shardmark {
namespace {

// The rows that all ranks have for the experts before `expert`, and those that the ranks before
// `rank` have for `expert`.
KOKKOS_INLINE_FUNCTION std::int32_t sorted_place(const ExpertArrivals& a,
                                                 const std::int32_t* counts, std::int64_t rank,
                                                 std::int64_t expert) {
  std::int32_t place = 0;
  for (std::int64_t r = 0; r < a.ranks; ++r)
    for (std::int64_t e = 0; e <= expert; ++e)
      if (e < expert || r < rank) place += counts[r * a.experts + e];
  return place;
}

template<class T>
void sort_rows(const Context& ctx, const ExpertArrivals& by, std::int64_t columns, const T* from,
               T* to) {
  const std::int32_t* places = by.places;
  kernel::for_each_row(
      ctx, "shardmark::sort_arrivals", by.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t arrived) {
        const T* source = from + arrived * columns;
        T* into = to + places[arrived] * columns;
        row.loop(columns, [&](std::int64_t j) { into[j] = source[j]; });
      });
}

// rows[place] = weight * dy[row] for the pair at a place, and its weight's gradient, by pair or, if
// there are places without a pair, by place.
template<class T, class W>
void weigh(const Context& ctx, const char* label, const Routes& by, const PlacedPairs& pairs,
           std::int64_t columns, bool by_place, const T* dy, const T* returned, T* rows,
           W* dweights) {
  const PlacedPairs at = pairs;
  const float* of_pairs = by.weights;
  kernel::for_each_row(
      ctx, label, at.places, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t place) {
        const std::int32_t pair = at.sources[place];
        const float weight = pair < 0 ? 0.0f : of_pairs[pair];
        const T *d = dy + (pair < 0 ? 0 : pair / at.per_token) * columns,
                *y = returned + place * columns;
        T* to = rows + place * columns;
        const auto dweight = row.template sum<float>(
            columns, [&](std::int64_t j) { return widen(d[j]) * widen(y[j]); });
        row.once([&] { round_to(dweights[by_place ? place : pair], pair < 0 ? 0.0f : dweight); });
        row.loop(columns, [&](std::int64_t j) { round_to(to[j], weight * widen(d[j])); });
      });
}

// The pairs that a lane has of an expert.
KOKKOS_INLINE_FUNCTION std::int32_t pairs_in(const std::int32_t* starts, std::int64_t expert,
                                             std::int64_t lanes, std::int64_t lane) {
  const std::int64_t pairs = starts[expert + 1] - starts[expert];
  return static_cast<std::int32_t>((pairs + lanes - 1 - lane) / lanes);
}

template<class T>
void describe_lane(const Context& ctx, const Routes& by, const PairLanes& in,
                   const LanePairs& pairs, T* weights) {
  const PairLanes lanes = in;
  const LanePairs to = pairs;
  const std::int32_t* sources = lanes.sources;
  const float* of_pairs = by.weights;
  const std::int64_t first = lanes.own * lanes.places, per_token = by.per_token;
  kernel::for_each(
      ctx, "shardmark::describe_lane", lanes.places, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t place = first + i;
        const std::int32_t pair = sources[place];
        to.tokens[place] = pair < 0 ? 0 : pair / per_token;
        to.choices[place] = pair < 0 ? 0 : pair % per_token;
        round_to(weights[place], pair < 0 ? 0.0f : of_pairs[pair]);
      });
  const std::int32_t* starts = by.starts;
  const std::int64_t experts = by.experts;
  kernel::for_each(
      ctx, "shardmark::count_lane", 1, KOKKOS_LAMBDA(std::int64_t) {
        std::int64_t all = 0;
        for (std::int64_t e = 0; e < experts; ++e)
          all += pairs_in(starts, e, lanes.count, lanes.own);
        to.pairs[lanes.own] = all;
      });
}

template<class T, class X>
void combine_own(const Context& ctx, const Routes& by, const PairLanes& lanes, std::int64_t columns,
                 const T* rows, X* dx, bool add) {
  const std::int32_t* places = by.places;
  const std::int64_t first = lanes.own * lanes.places, end = first + lanes.places;
  const std::int64_t per_token = by.per_token;
  kernel::for_each_row(
      ctx, "shardmark::combine_lane", by.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        X* to = dx + r * columns;
        row.loop(columns, [&](std::int64_t j) {
          float sum = add ? widen(to[j]) : 0.0f;
          for (std::int64_t p = r * per_token; p < (r + 1) * per_token; ++p) {
            const std::int64_t place = places[p];
            if (place >= first && place < end) sum += widen(rows[place * columns + j]);
          }
          round_to(to[j], sum);
        });
      });
}

// The gradients of this lane's weights, and zeros for those of other lanes.
template<class T>
void own_weights(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                 const T* of_places, float* dweights) {
  const std::int32_t* places = routes.places;
  const std::int64_t first = lanes.own * lanes.places, end = first + lanes.places;
  kernel::for_each(
      ctx, "shardmark::own_weights", routes.pairs(), KOKKOS_LAMBDA(std::int64_t p) {
        const std::int64_t place = places[p];
        dweights[p] = place >= first && place < end ? widen(of_places[place]) : 0.0f;
      });
}

}  // namespace

void count_rows(const Context& ctx, const Routes& routes, const RowLanes& lanes,
                std::int32_t* counts) {
  const char* const label =
      lanes.count > 1 ? "shardmark::count_lane_rows" : "shardmark::count_rows";
  const std::int32_t* starts = routes.starts;
  const std::int64_t all = lanes.count, own = lanes.own;
  kernel::for_each(
      ctx, label, routes.experts,
      KOKKOS_LAMBDA(std::int64_t e) { counts[e] = pairs_in(starts, e, all, own); });
}

void arrange_arrivals(const Context& ctx, const ExpertArrivals& arrivals,
                      const std::int32_t* counts) {
  const ExpertArrivals a = arrivals;
  kernel::for_each(
      ctx, "shardmark::start_arrivals", a.experts + 1,
      KOKKOS_LAMBDA(std::int64_t e) { a.starts[e] = sorted_place(a, counts, 0, e); });
  kernel::for_each(
      ctx, "shardmark::place_arrivals", a.ranks * a.experts, KOKKOS_LAMBDA(std::int64_t block) {
        std::int32_t arrived = 0;
        for (std::int64_t b = 0; b < block; ++b) arrived += counts[b];
        const std::int32_t sorted = sorted_place(a, counts, block / a.experts, block % a.experts);
        for (std::int32_t i = 0; i < counts[block]; ++i) a.places[arrived + i] = sorted + i;
      });
}

void sort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                   ConstStored arrived, Stored sorted) {
  with_elements([&](auto*... data) { sort_rows(ctx, arrivals, columns, data...); }, arrived,
                sorted);
}

void unsort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                     ConstStored sorted, Stored arrived) {
  collect_pairs(ctx, "shardmark::unsort_arrivals", {arrivals.places, arrivals.rows, 1}, columns,
                sorted, arrived);
}

void place_in_lanes(const Context& ctx, const Routes& routes, const PairLanes& lanes) {
  const Routes to = routes;
  const PairLanes in = lanes;
  kernel::for_each(
      ctx, "shardmark::empty_lanes", in.all_places(),
      KOKKOS_LAMBDA(std::int64_t place) { in.sources[place] = -1; });
  kernel::for_each(
      ctx, "shardmark::place_in_lanes", to.experts * in.count, KOKKOS_LAMBDA(std::int64_t part) {
        const std::int64_t expert = part / in.count, lane = part % in.count;
        std::int64_t place = lane * in.places;
        for (std::int64_t e = 0; e < expert; ++e) place += pairs_in(to.starts, e, in.count, lane);
        for (std::int64_t i = to.starts[expert] + lane; i < to.starts[expert + 1]; i += in.count) {
          const std::int32_t pair = to.sources[i];
          to.places[pair] = static_cast<std::int32_t>(place);
          in.sources[place++] = pair;
        }
      });
}

void collect_lane(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                  std::int64_t columns, ConstStored x, Stored rows, const LanePairs& pairs) {
  const std::int64_t first = lanes.own * lanes.places;
  collect_pairs(ctx, "shardmark::collect_lane",
                {lanes.sources + first, lanes.places, routes.per_token}, columns, x,
                rows.at(first * columns));
  with_elements([&](auto* weights) { describe_lane(ctx, routes, lanes, pairs, weights); },
                pairs.weights);
}

void weigh_gradients(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                     std::int64_t columns, ConstStored dy, ConstStored returned, Stored rows,
                     Stored weights) {
  const bool many = lanes.count > 1;
  const char* const label = many ? "shardmark::weigh_lanes" : "shardmark::weigh_gradients";
  const PlacedPairs all{many ? lanes.sources : routes.sources, lanes.all_places(),
                        routes.per_token};
  with_elements_and_sums(
      [&](auto* dweights, auto*... data) {
        weigh(ctx, label, routes, all, columns, many, data..., dweights);
      },
      weights, dy, returned, rows);
}

void combine_lane(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                  std::int64_t columns, ConstStored rows, ConstStored weights, Stored dx, bool add,
                  float* dweights) {
  with_elements_and_sums(
      [&](auto* to, auto* from) { combine_own(ctx, routes, lanes, columns, from, to, add); }, dx,
      rows);
  with_elements([&](auto* w) { own_weights(ctx, routes, lanes, w, dweights); }, weights);
}

}  // namespace shardmark
