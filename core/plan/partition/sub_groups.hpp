// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's partition at stage 3: each parameter by itself is cut into equal shards, of which the
// last ones are padded. The optimizer works on sub-groups of about sub_group_size elements per
// rank.
//
// Source: DeepSpeed 0.19's stage3.py, _create_fp16_sub_groups.
#pragma once

#include <vector>

#include <core/plan/mesh/mesh.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// The parameters whose shards are updated together.
struct SubGroup {
  std::vector<int> params;
  std::int64_t elems = 0;  // this rank's shards, padding included
};

/// All sub-groups of one rank; they are the same on each rank.
class SubGroups {
 public:
  /// Closes a sub-group once it holds `size` elements. Each parameter is divided over its holders.
  /// Throws SizeError beyond 63 bits.
  SubGroups(const ModelShape& model, std::int64_t size, const Mesh& mesh);

  const std::vector<SubGroup>& groups() const { return groups_; }
  int group_of(int param) const { return group_of_[param]; }
  /// Where a parameter's shard begins in its sub-group's flat buffer.
  std::int64_t offset_of(int param) const { return offset_of_[param]; }
  std::int64_t shard(int param) const { return shard_[param]; }

 private:
  std::vector<SubGroup> groups_;
  std::vector<int> group_of_;  // by parameter
  std::vector<std::int64_t> offset_of_, shard_;
};

}  // namespace shardmark
