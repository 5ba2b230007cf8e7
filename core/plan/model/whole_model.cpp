// SPDX-License-Identifier: Apache-2.0
#include <core/plan/model/whole_model.hpp>

namespace shardmark {
namespace {

bool is_divided(const ModelSpec& spec) {
  return spec.part.cuts() || spec.expert_part.cuts();
}

ModelShape with_parts(const ModelShape& shape, const AxisPart& layers, const AxisPart& experts) {
  ModelSpec spec = shape.spec;
  spec.part = layers;
  spec.expert_part = experts;
  return build_model_shape(spec, shape.recompute, shape.reentrant);
}

}  // namespace

ModelShape whole_model(const ModelShape& part) {
  return is_divided(part.spec) ? with_parts(part, {}, {}) : part;
}

ModelView view_of(const ModelShape& part) {
  ModelView view;
  if (!is_divided(part.spec)) return view;
  std::int64_t place = 0;
  for (const Param& p : part.params) {
    if (p.elems > 0) view.push_back({p.drawn_as < 0 ? place : p.drawn_as, p.elems, p.slice});
    ++place;
  }
  return view;
}

std::vector<ModelView> all_views(const ModelShape& part) {
  std::vector<ModelView> views;
  if (!is_divided(part.spec)) return views;
  AxisPart layers = part.spec.part, experts = part.spec.expert_part;
  for (experts.rank = 0; experts.rank < experts.ranks; ++experts.rank)
    for (layers.rank = 0; layers.rank < layers.ranks; ++layers.rank)
      views.push_back(view_of(with_parts(part, layers, experts)));
  return views;
}

int view_index(const AxisPart& layers, const AxisPart& experts) {
  return static_cast<int>(experts.rank * layers.ranks + layers.rank);
}

}  // namespace shardmark
