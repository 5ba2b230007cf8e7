// SPDX-License-Identifier: Apache-2.0
// What experts that ranks divide need beside the layers of experts.hpp: rows arrive from several
// ranks, those of each rank sorted by experts, and are sorted by experts as a whole. Rows of one
// expert are in the order of ranks, so that results do not depend on threads.
#pragma once

#include <core/nn/layers/experts.hpp>

namespace shardmark {

/// What arrives at a rank from the `ranks` that divide experts, itself included.
struct ExpertArrivals {
  std::int64_t ranks, experts;  // experts: those that this rank has
  std::int64_t rows;            // of all ranks together
  std::int32_t* places;         // [rows]: the place among the sorted rows of what arrived
  std::int32_t* starts;         // [experts + 1]: the first place of each expert, and the rows
};

/// Writes how many rows each expert of the layer has: counts[routes.experts].
void count_rows(const Context& ctx, const Routes& routes, std::int32_t* counts);

/// Computes `places` and `starts` from counts[ranks][experts], the rows of each rank.
void arrange_arrivals(const Context& ctx, const ExpertArrivals& arrivals,
                      const std::int32_t* counts);

/// Between the order of arrival and that of experts, in rows of `columns` elements.
void sort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                   ConstStored arrived, Stored sorted);
void unsort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                     ConstStored sorted, Stored arrived);

/// Backward of combine_rows: sorted[place] = weight * dy[row], and dweights[pair], the sum of
/// dy[row] * returned[place].
void weigh_gradients(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored dy,
                     ConstStored returned, Stored sorted, float* dweights);

}  // namespace shardmark
