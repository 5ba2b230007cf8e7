// SPDX-License-Identifier: Apache-2.0
// The groups in which DeepSpeed quantizes a gradient (ZeRO++'s qgZ): the elements of a group share
// one scale.
//
// Source: DeepSpeed 0.19.8's runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce. A
// gradient of one dimension, or whose size 2 x ranks do not divide, is reduce-scattered by itself.
// Any other has as many groups as the larger of its first two sizes, or as there are ranks. Its
// all-to-alls fail unless the ranks divide the groups. The kernel
// (swizzled_quantize of csrc/quantization) loads 8 elements at once, so a group of another size
// faults, and it is not launched for groups of more than 5 x 8192 elements, which leaves garbage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardmark {

/// How DeepSpeed divides one gradient into groups; `groups` is 0 if it is reduce-scattered.
struct GradientGroups {
  std::int64_t groups = 0, group_elems = 0;
  /// Whether DeepSpeed can send the gradient.
  bool possible = true;
};

/// The groups of a gradient of this shape in a world of `ranks` ranks.
inline GradientGroups gradient_groups(const std::vector<std::int64_t>& shape, std::int64_t elems,
                                      std::int64_t ranks) {
  constexpr std::int64_t unit = 8, most = std::int64_t{5} * 8192;
  if (shape.size() < 2 || elems == 0 || elems % (2 * ranks) != 0) return {};
  GradientGroups g;
  g.groups = std::max({shape[0], shape[1], ranks});
  g.group_elems = elems / g.groups;
  g.possible = g.groups % ranks == 0 && g.group_elems % unit == 0 && g.group_elems <= most;
  return g;
}

}  // namespace shardmark
