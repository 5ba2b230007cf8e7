// SPDX-License-Identifier: Apache-2.0
// The order of the heads in the output of one product for q, k and v.
#pragma once

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Copies rows of (heads + 2 kv_heads) heads. With `joined` it copies from the order in which each
/// key head follows its query heads and its value follows it (GPT-NeoX, BLOOM, Falcon) to q | k |
/// v; otherwise it copies back.
void arrange_heads(const Context& ctx, const TransformerDims& dims, ConstStored from, Stored to,
                   bool joined);

}  // namespace shardmark
