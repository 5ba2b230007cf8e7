// SPDX-License-Identifier: Apache-2.0
// How heads lie in the outputs of products: their order where one product makes q, k and v, and the
// channels of heads in latent attention (DeepSeek-AI, DeepSeek-V2, 2024).
#pragma once

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Copies rows of (heads + 2 kv_heads) heads. With `joined` it copies from the order in which each
/// key head follows its query heads and its value follows it (GPT-NeoX, BLOOM, Falcon) to q | k |
/// v; otherwise it copies back.
void arrange_heads(const Context& ctx, const TransformerDims& dims, ConstStored from, Stored to,
                   bool joined);

/// The keys and values of latent attention. What the last product of their latent makes is
/// [rows][heads][plain | value] in `made`. The other channels of keys are [rows][rotary] in
/// `shared`, whose rows are `shared_stride` elements apart, and are those of all heads.
template<class S>
struct LatentHeads {
  S made, shared;
  std::int64_t shared_stride;
};

/// Writes k[rows][heads][plain | rotary] and v[rows][heads][head_dim], where each value is followed
/// by zeros.
void spread_latent(const Context& ctx, const TransformerDims& dims,
                   const LatentHeads<ConstStored>& from, Stored k, Stored v);
/// The same backward: writes the gradients of `made` and of `shared`, which is the sum over heads.
void collect_latent(const Context& ctx, const TransformerDims& dims, ConstStored dk, ConstStored dv,
                    const LatentHeads<Stored>& gradient);

/// Copies the first channels of each head from [rows][heads][from_channels] to
/// [rows][heads][to_channels]; further channels become zeros.
void resize_heads(const Context& ctx, const TransformerDims& dims, ConstStored from,
                  std::int64_t from_channels, Stored to, std::int64_t to_channels);

}  // namespace shardmark
