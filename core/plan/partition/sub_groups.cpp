// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/partition/sub_groups.hpp>

namespace shardmark {

SubGroups::SubGroups(const ModelShape& model, std::int64_t size, const Mesh& mesh)
    : group_of_(model.params.size()), offset_of_(model.params.size()) {
  for (const Param& p : model.params) {
    const int ranks = mesh.ranks_of(p.holders);
    shard_.push_back(round_up(p.elems, ranks, "partition of " + p.name) / ranks);
  }
  for (const std::vector<int>& params : model.param_groups) {
    std::int64_t total = 0;
    for (int p : params) total = checked_add(total, shard_[p], "partition");
    bool open = false;
    for (int p : params) {
      if (!open) groups_.emplace_back();
      SubGroup& g = groups_.back();
      group_of_[p] = static_cast<int>(groups_.size()) - 1;
      offset_of_[p] = g.elems;
      g.params.push_back(p);
      g.elems += shard_[p];
      open = size >= total || g.elems < size;
    }
  }
}

}  // namespace shardmark
