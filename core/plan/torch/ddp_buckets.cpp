// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include <core/plan/torch/ddp_buckets.hpp>

namespace shardmark {
namespace {

bool has_shapes(const ModelShape& model) {
  return std::ranges::any_of(model.spec.modules,
                             [](const ListModule& m) { return !m.shapes.empty(); });
}

}  // namespace

DdpBuckets cut_into_buckets(const ModelShape& model, const std::vector<int>& params,
                            const std::vector<std::int64_t>& caps, std::int64_t bytes_per_elem) {
  DdpBuckets buckets;
  std::vector<int> open;
  std::int64_t bytes = 0;
  for (const int id : params) {
    open.push_back(id);
    bytes += model.params[id].elems * bytes_per_elem;
    if (bytes < caps[std::min(buckets.size(), caps.size() - 1)]) continue;
    buckets.push_back(std::move(open));
    open.clear();
    bytes = 0;
  }
  if (!open.empty()) buckets.push_back(std::move(open));
  return buckets;
}

std::vector<std::int64_t> bucket_caps(const TorchSpec& spec) {
  constexpr double mib = 1 << 20;
  if (!spec.bucket_cap_mb) return {std::int64_t{1} << 20, std::int64_t{25} << 20};
  const double bytes = *spec.bucket_cap_mb * mib;
  return {static_cast<std::int64_t>(std::min(bytes, 9e18))};
}

DdpBuckets first_buckets(const ModelShape& model, const TorchSpec& spec,
                         const std::vector<int>& params, std::int64_t bytes_per_elem) {
  if (spec.static_graph || !spec.find_unused_parameters) return {params};
  DdpBuckets buckets = cut_into_buckets(model, params, bucket_caps(spec), bytes_per_elem);
  std::ranges::reverse(buckets);
  return buckets;
}

// A list may say of which shape its tensors are. A module of a matrix and a vector is linear, and
// its bias is ready first.
std::vector<int> torch_ready_order(const ModelShape& model) {
  if (model.spec.family != Family::list || !model.spec.gradient_ready_order.empty())
    return gradient_ready_order(model, false);
  std::vector<int> order;
  std::vector<bool> ready(model.params.size());
  const bool shaped = has_shapes(model);
  const std::vector<int> modules = model.computing(VisitKind::pre_backward);
  // A tied parameter is ready at its last use, so the order is found from its end.
  for (auto m = modules.rbegin(); m != modules.rend(); ++m) {
    std::vector<int> params = model.params_of(*m);
    const bool norm = shaped && params.size() > 1 && model.params[params[0]].shape.size() == 1;
    if (!norm) std::ranges::reverse(params);
    for (auto id = params.rbegin(); id != params.rend(); ++id) {
      if (!ready[*id]) order.push_back(*id);
      ready[*id] = true;
    }
  }
  std::ranges::reverse(order);
  return order;
}

ZeroOwners zero_owners(const ModelShape& model, const std::vector<int>& params, int world) {
  ZeroOwners owners{std::vector<int>(model.params.size(), -1), params};
  std::ranges::stable_sort(owners.order, std::ranges::greater(),
                           [&](int id) { return model.params[id].elems; });
  std::vector<std::int64_t> held(static_cast<std::size_t>(world));
  for (const int id : owners.order) {
    const auto least = std::ranges::min_element(held);
    owners.rank_of[id] = static_cast<int>(least - held.begin());
    *least += model.params[id].elems;
  }
  return owners;
}

}  // namespace shardmark
