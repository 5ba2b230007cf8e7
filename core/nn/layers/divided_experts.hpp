// SPDX-License-Identifier: Apache-2.0
// What experts that ranks divide need beside the layers of experts.hpp: rows arrive from several
// ranks, those of each rank sorted by experts, and are sorted by experts as a whole. Rows of one
// expert are in the order of ranks, so that results do not depend on threads.
//
// If the ranks that divide layers share these rows, the pairs of rows and experts are in lanes, one
// per rank. Of each expert's pairs lane l has number l, l + lanes, l + 2 lanes ..., in the order of
// experts. All lanes have room for equally many pairs.
#pragma once

#include <core/nn/layers/experts.hpp>
#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark {

/// What arrives at a rank from the `ranks` that divide experts, itself included.
struct ExpertArrivals {
  std::int64_t ranks, experts;  // experts: those that this rank has
  std::int64_t rows;            // of all ranks together
  std::int32_t* places;         // [rows]: the place among the sorted rows of what arrived
  std::int32_t* starts;         // [experts + 1]: the first place of each expert, and the rows
};

/// Computes `places` and `starts` from counts[ranks][experts], the rows of each rank.
void arrange_arrivals(const Context& ctx, const ExpertArrivals& arrivals,
                      const std::int32_t* counts);

/// Between the order of arrival and that of experts, in rows of `columns` elements.
void sort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                   ConstStored arrived, Stored sorted);
void unsort_arrivals(const Context& ctx, const ExpertArrivals& arrivals, std::int64_t columns,
                     ConstStored sorted, Stored arrived);

/// The lanes of a layer's pairs, and the pairs in them.
struct PairLanes : RowLanes {
  // [lanes][places]: the pair at a place, or -1; one lane needs none.
  std::int32_t* sources = nullptr;
};

/// Writes `sources`, and routes.places anew: the places of pairs in their lanes. The other arrays
/// of `routes` stay sorted by experts alone.
void place_in_lanes(const Context& ctx, const Routes& routes, const PairLanes& lanes);

/// Writes how many rows each expert of the layer has in this rank's lane: counts[routes.experts].
void count_rows(const Context& ctx, const Routes& routes, const RowLanes& lanes,
                std::int32_t* counts);

/// What a lane says of its pairs: [lanes][places] each, but `pairs` [lanes], how many there are.
struct LanePairs {
  std::int64_t *tokens, *choices;
  Stored weights;
  std::int64_t* pairs;
};
/// Writes this rank's lane of the rows, x[row of each pair], and what is said of its pairs. Places
/// without a pair become zero.
void collect_lane(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                  std::int64_t columns, ConstStored x, Stored rows, const LanePairs& pairs);

/// Backward of combine_rows, for all lanes: rows[place] = weight * dy[row], and weights[place], the
/// sum of dy[row] * returned[place]. If there is one lane, its weights are fp32 and by pair.
void weigh_gradients(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                     std::int64_t columns, ConstStored dy, ConstStored returned, Stored rows,
                     Stored weights);

/// dx[row] (+)= the sum of the rows of this rank's lane, and dweights[pair]: `weights` at the
/// place of a pair in this rank's lane, and 0 for other pairs.
void combine_lane(const Context& ctx, const Routes& routes, const PairLanes& lanes,
                  std::int64_t columns, ConstStored rows, ConstStored weights, Stored dx, bool add,
                  float* dweights);

}  // namespace shardmark
