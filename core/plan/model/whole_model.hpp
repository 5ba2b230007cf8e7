// SPDX-License-Identifier: Apache-2.0
// The whole model behind the part of it that one rank has where ranks divide layers or experts, and
// which elements of the whole that part is. Checkpoints name parameters of the whole model, so that
// another mesh can read them.
//
// Two ranks divide a product by its columns (by w) and another by its rows:
//     up   [4][2], by columns   rank 0 has elements 0 1 2 3 of the tensor, rank 1 has 4 5 6 7
//     down [2][4], by rows      rank 0 has elements 0 1 and 4 5, rank 1 has 2 3 and 6 7
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Which elements of a parameter of the whole model a parameter of a part is.
struct ParamInWhole {
  std::int64_t param = 0;  // of the whole model, by its place in registration order
  std::int64_t elems = 0;  // of the part
  TensorSlice slice = {};
  bool operator==(const ParamInWhole&) const = default;
};

/// What each parameter of a part is in the whole, in the part's registration order; those without
/// elements are left out. An empty view is that of the whole model.
using ModelView = std::vector<ParamInWhole>;

/// Returns the model that a run without divided layers and experts has. Throws what
/// build_model_shape throws.
ModelShape whole_model(const ModelShape& part);

/// Returns the view of the part that a rank has; empty if neither layers nor experts are divided.
ModelView view_of(const ModelShape& part);

/// Returns the views of all parts of the model of which `part` is one, in the order of view_index;
/// nothing if neither layers nor experts are divided.
std::vector<ModelView> all_views(const ModelShape& part);
/// Returns the place of a part's view among them: the ranks that divide layers follow one another.
int view_index(const AxisPart& layers, const AxisPart& experts);

}  // namespace shardmark
