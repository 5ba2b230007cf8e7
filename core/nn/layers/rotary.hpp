// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., RoFormer, 2021). In a head of which `channels` are rotated, pair j
// at position p is rotated by p times its frequency, theta^(-2j/channels) unless that is scaled.
// The pair consists of the channels j and j + channels/2, or of the neighbours 2j and 2j + 1.
#pragma once

#include <core/nn/layers/attention.hpp>

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
/// elements apart.
struct RotatedHeads {
  Stored first;
  std::int64_t stride, count, channels;
};

/// Rotates q[rows][heads][head_dim] and k[rows][kv_heads][head_dim] in place; v is not used.
void rotary_forward(const Context& ctx, const TransformerDims& dims,
                    const QueryKeyValue<Stored>& parts, const Rotation& rotation);

/// Rotates the gradients of the rotated q and k back, in place, so that they become the gradients
/// of q and k.
void rotary_backward(const Context& ctx, const TransformerDims& dims,
                     const QueryKeyValue<Stored>& gradient, const Rotation& rotation);

/// Do the same with one tensor, of which the first channels of each head are rotated.
void rotary_forward(const Context& ctx, const TransformerDims& dims, const RotatedHeads& heads,
                    const Rotation& rotation);
void rotary_backward(const Context& ctx, const TransformerDims& dims, const RotatedHeads& heads,
                     const Rotation& rotation);

}  // namespace shardmark
