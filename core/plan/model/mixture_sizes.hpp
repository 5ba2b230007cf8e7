// SPDX-License-Identifier: Apache-2.0
// The tensors of a mixture of experts, in the place of a block's MLP. A pair is a row together with
// one of its experts. Forward sorts pairs by experts, so that the rows of an expert follow each
// other and each expert is one product. No pair is dropped: sizes depend on the number of pairs
// alone, however they are spread over the experts.
#pragma once

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

class Offsets;

/// Pairs of a micro-batch: rows times experts per token.
std::int64_t pairs_of(const TransformerDims& dims);

/// Elements of the sums of the first `layers` layers for the loss that balances experts: for each
/// layer that has experts how many pairs each of them has, then the sum of its probabilities.
std::int64_t balance_elems(const TransformerDims& dims, std::int64_t layers);

/// If ranks divide layers as well as experts, they have the same pairs, and each rank sends a part
/// of them, its lane: of each expert's pairs every `count`-th one, beginning with its own number.
/// Otherwise there is one lane. Source: DeepSpeed 0.19.8's moe/ep_tp_dispatch.py.
struct RowLanes {
  std::int64_t count = 1, own = 0;
  // Of each lane: the pairs of the largest one, with learned routing the most that one may have.
  std::int64_t places = 0;
  std::int64_t all_places() const { return count * places; }
};
RowLanes row_lanes(const TransformerDims& dims);

/// If ranks divide the experts of a layer: how many pairs a rank of `lane` sends to the rank at
/// `place` of their group, how many the one at `place` sends to this rank, and how many arrive here
/// from all, with balanced routing. Learned routing is taken to do the same on average.
std::int64_t pairs_to(const TransformerDims& dims, std::int64_t lane, std::int64_t place);
std::int64_t pairs_from(const TransformerDims& dims, std::int64_t place);
std::int64_t arriving_pairs(const TransformerDims& dims);
/// How many may arrive: as many with balanced routing, and MoeSpec::room times as many with
/// learned routing, but no more than the ranks can send.
std::int64_t arrivals_room(const TransformerDims& dims);
/// The most pairs that one rank may send another.
std::int64_t largest_part(const TransformerDims& dims);

/// Offsets in `saved`. R is the number of rows, P of pairs, A of pairs that may arrive from the
/// ranks that divide experts, E of experts, h the hidden size, and f and s are the widths of an
/// expert and of the shared one.
struct MixtureSaved {
  std::int64_t probabilities = 0;  // [R][E], fp32, of the router
  std::int64_t weights = 0;        // [P], fp32, by row and choice
  std::int64_t chosen = 0;         // [P], int32: the expert of a pair
  std::int64_t places = 0;         // [P], int32: its place in the sorted order
  std::int64_t sources = 0;        // [P], int32: the pair at a place
  std::int64_t starts = 0;         // [E + 1], int32: the first place of each expert, and P
  std::int64_t gate_up = 0;        // [P][2 f], sorted
  // In its place if ranks divide experts: what has arrived, sorted by this rank's experts.
  std::int64_t arrived = 0;       // [A][h]
  std::int64_t gate = 0, up = 0;  // [A][f]
  std::int64_t arrivals = 0;      // [A], int32: the sorted place of what arrived at a place
  std::int64_t own_starts = 0;    // [E], int32: as starts, of this rank's experts
  std::int64_t returned = 0;      // [P][h], the experts' outputs, sorted; by lanes if there are any
  std::int64_t lane_sources = 0;  // [places of all lanes], int32: the pair at a place, or -1
  std::int64_t shared_gate = 0, shared_up = 0;  // [R][s]
  std::int64_t shared_out = 0;                  // [R][h], before its factor
  std::int64_t shared_factor = 0;               // [R], fp32
  std::int64_t sum = 0;                         // [R][h], of the chosen experts
};

/// Offsets in the workspace of a pass; forward needs the first three alone. If ranks divide
/// experts, `rows` and `act` have A rows.
struct MixtureWorkspace {
  std::int64_t rows = 0;  // [P][h], the experts' inputs, then their outputs; backward:
                          // gradients of outputs, inputs, then gradients of inputs
  std::int64_t act = 0;   // [P][f]; backward: gradients of the activation's outputs, then these
  std::int64_t shared_act = 0;  // [R][s]; overlaps them
  std::int64_t dgate_up = 0;    // [P][2 f]; divided experts: dgate and dup, [A][f] each
  std::int64_t dup = 0;
  std::int64_t dweights = 0;  // [P], fp32
  std::int64_t dlogits = 0;   // [R][E]
  std::int64_t dbalance = 0;  // [E], fp32, of each expert's probabilities, by the balancing loss
  std::int64_t dfactor = 0;   // [R], fp32, of the logit of the shared expert's factor
  std::int64_t dshared = 0;   // [R][h]
  std::int64_t dshared_gate = 0, dshared_up = 0;  // [R][s]
};

/// Takes the places of these tensors from `offsets`.
MixtureSaved mixture_saved(const TransformerDims& dims, Offsets& offsets);
MixtureWorkspace mixture_forward_workspace(const TransformerDims& dims, Offsets& offsets);
MixtureWorkspace mixture_backward_workspace(const TransformerDims& dims, Offsets& offsets);

}  // namespace shardmark
