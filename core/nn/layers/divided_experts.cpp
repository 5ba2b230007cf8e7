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
void move_rows(const Context& ctx, const char* label, const ExpertArrivals& by,
               std::int64_t columns, const T* from, T* to, bool sorts) {
  const std::int32_t* places = by.places;
  kernel::for_each_row(
      ctx, label, by.rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t arrived) {
        const std::int64_t sorted = places[arrived];
        const T* source = from + (sorts ? arrived : sorted) * columns;
        T* into = to + (sorts ? sorted : arrived) * columns;
        row.loop(columns, [&](std::int64_t j) { into[j] = source[j]; });
      });
}

void move_stored(const Context& ctx, const char* label, const ExpertArrivals& by,
                 std::int64_t columns, ConstStored from, Stored to, bool sorts) {
  with_storage(from.dtype, [&](auto type) {
    using T = decltype(type);
    move_rows(ctx, label, by, columns, from.as<T>(), to.as<T>(), sorts);
  });
}

template<class T>
void weigh_each(const Context& ctx, const Routes& by, std::int64_t columns, const T* dy,
                const T* returned, T* sorted, float* dweights) {
  kernel::for_each_row(
      ctx, "shardmark::weigh_gradients", by.pairs(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t place) {
        const std::int32_t pair = by.sources[place];
        const float weight = by.weights[pair];
        const T *d = dy + pair / by.per_token * columns, *y = returned + place * columns;
        T* to = sorted + place * columns;
        const auto dweight = row.template sum<float>(
            columns, [&](std::int64_t j) { return widen(d[j]) * widen(y[j]); });
        row.once([&] { dweights[pair] = dweight; });
        row.loop(columns, [&](std::int64_t j) { round_to(to[j], weight * widen(d[j])); });
      });
}

}  // namespace

void count_rows(const Context& ctx, const Routes& routes, std::int32_t* counts) {
  const std::int32_t* starts = routes.starts;
  kernel::for_each(
      ctx, "shardmark::count_rows", routes.experts,
      KOKKOS_LAMBDA(std::int64_t e) { counts[e] = starts[e + 1] - starts[e]; });
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
  move_stored(ctx, "shardmark::sort_arrivals", arrivals, columns, arrived, sorted, true);
}

void unsort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                     ConstStored sorted, Stored arrived) {
  move_stored(ctx, "shardmark::unsort_arrivals", arrivals, columns, sorted, arrived, false);
}

void weigh_gradients(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored dy,
                     ConstStored returned, Stored sorted, float* dweights) {
  with_storage(dy.dtype, [&](auto type) {
    using T = decltype(type);
    weigh_each(ctx, routes, columns, dy.as<T>(), returned.as<T>(), sorted.as<T>(), dweights);
  });
}

}  // namespace shardmark
