// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., RoFormer, 2021). In a head of which `channels` are rotated, pair j
// at position p is rotated by p times its frequency, theta^(-2j/channels) unless that is scaled.
// The pair consists of the channels j and j + channels/2, or of the neighbours 2j and 2j + 1.
#pragma once

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// The rotation of one layer.
struct Rotation {
  static constexpr std::int64_t most_pairs = 256;
  double frequency[most_pairs];
  std::int64_t pairs = 0;  // of a head
  bool neighbours = false;
  float length = 1;  // factor of the rotated channels
};

/// Returns the rotation of a layer, in latent attention of the channels that are rotated:
/// frequencies as given, or scaled linearly, as in Llama 3, or by YaRN (Peng et al., 2023). Throws
/// PlanError for heads of more than 512 channels.
Rotation rotation_of(const TransformerDims& dims, std::int64_t layer);

/// The heads of a tensor: `count` of them per row, `channels` elements apart, and the rows `stride`
/// elements apart. Of each head the first channels are rotated.
struct RotatedHeads {
  Stored first;
  std::int64_t stride = 0, count = 0, channels = 0;
};

/// Rotates the heads of q and of k, which have one type and may have no heads, in place; `back`
/// turns gradients of rotated heads into those of the heads.
void rotate(const Context& ctx, const TransformerDims& dims, const RotatedHeads& q,
            const RotatedHeads& k, const Rotation& rotation, bool back = false);

}  // namespace shardmark
