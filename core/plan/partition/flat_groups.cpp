// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deck/checked.hpp>
#include <core/plan/partition/flat_groups.hpp>

namespace shardmark {
namespace {

// The order under round_robin_gradients: parameters i, i + N, i + 2N … lie side by side, so that
// gradients which become ready one after another belong to different ranks.
std::vector<int> dealt(const std::vector<int>& params, int world) {
  std::vector<int> order;
  const auto step = static_cast<std::size_t>(world);
  for (std::size_t first = 0; first < std::min(step, params.size()); ++first)
    for (std::size_t i = first; i < params.size(); i += step) order.push_back(params[i]);
  return order;
}

}  // namespace

FlatGroups::FlatGroups(const ModelShape& model, const ZeroKnobs& knobs, std::int64_t param_bytes,
                       const Mesh& mesh)
    : model_(model), group_of_(model.params.size()), offset_of_(model.params.size()) {
  constexpr std::int64_t aligned_bytes = 16;
  for (const std::vector<int>& params : model.param_groups) {
    FlatGroup g;
    g.params = params;
    if (!params.empty()) g.holders = model.params[params[0]].holders;
    g.ranks = mesh.ranks_of(g.holders);
    std::int64_t end = 0;
    for (int p : knobs.round_robin_gradients ? dealt(params, g.ranks) : params) {
      if (knobs.parameter_alignment)
        end = round_up(end, aligned_bytes / param_bytes, "partition: alignment");
      g.layout.push_back({p, end});
      group_of_[p] = static_cast<int>(groups_.size());
      offset_of_[p] = end;
      end = checked_add(end, model.params[p].elems, "partition");
    }
    g.padded = round_up(end, 2 * static_cast<std::int64_t>(g.ranks), "partition: padding");
    g.partition = g.padded / g.ranks;
    groups_.push_back(std::move(g));
  }
}

OwnedSlice FlatGroups::owned(int param, int rank) const {
  const std::int64_t partition = groups_[group_of_[param]].partition;
  const std::int64_t begin = offset_of_[param], end = begin + model_.params[param].elems;
  const std::int64_t from = std::max(begin, partition * rank);
  const std::int64_t to = std::min(end, partition * (rank + 1));
  return {rank, from - begin, std::max<std::int64_t>(0, to - from)};
}

std::vector<OwnedSlice> FlatGroups::owners(int param) const {
  const std::int64_t partition = groups_[group_of_[param]].partition;
  const std::int64_t begin = offset_of_[param], end = begin + model_.params[param].elems;
  std::vector<OwnedSlice> slices;
  for (auto rank = static_cast<int>(begin / partition); rank * partition < end; ++rank)
    slices.push_back(owned(param, rank));
  return slices;
}

}  // namespace shardmark
