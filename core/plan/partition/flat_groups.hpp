// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's partition at stages 1 and 2: each parameter group of the optimizer is one flat
// buffer, padded to a multiple of twice the world size and cut into equal partitions, regardless of
// where tensors begin. For example, parameters of 5 and 4 elements on two ranks:
//
//     element   a a a a a b | b b b . . .      padded 12, partition 6; '.' is padding, always zero
//     rank           0      |      1
//
// Source: DeepSpeed 0.19's runtime/zero/stage_1_and_2.py, constructor.
#pragma once

#include <vector>

#include <core/plan/mesh/mesh.hpp>
#include <core/plan/model/model_shape.hpp>
#include <core/plan/partition/flat_param.hpp>

namespace shardmark {

/// One flat buffer. `padded` is its length and `partition` the length of one rank's part, in
/// elements; `ranks` divide it.
struct FlatGroup {
  std::vector<int> params;        // as the optimizer lists them
  std::vector<FlatParam> layout;  // as they lie in the buffer
  std::int64_t padded = 0, partition = 0;
  Holders holders = Holders::all;
  int ranks = 1;
};

/// The part of a parameter in one rank's partition: its elements [first, first + elems). `rank` is
/// the place among the ranks that divide the buffer.
struct OwnedSlice {
  int rank = 0;
  std::int64_t first = 0, elems = 0;
};

/// The flat buffers of a model, and where each parameter lies in them.
class FlatGroups {
 public:
  /// Each buffer is divided over the holders of its parameters. Throws SizeError when a padded size
  /// leaves 63 bits.
  FlatGroups(const ModelShape& model, const ZeroKnobs& knobs, std::int64_t param_bytes,
             const Mesh& mesh);

  const std::vector<FlatGroup>& groups() const { return groups_; }
  int group_of(int param) const { return group_of_[param]; }
  std::int64_t offset_of(int param) const { return offset_of_[param]; }
  /// The slices that cover the parameter, in the order of ranks and elements.
  std::vector<OwnedSlice> owners(int param) const;
  /// The slice of `param` in the partition of `rank`, the place among the ranks that divide its
  /// buffer; it may have no elements.
  OwnedSlice owned(int param, int rank) const;

 private:
  const ModelShape& model_;
  std::vector<FlatGroup> groups_;
  std::vector<int> group_of_;            // by parameter
  std::vector<std::int64_t> offset_of_;  // in its group's buffer
};

}  // namespace shardmark
