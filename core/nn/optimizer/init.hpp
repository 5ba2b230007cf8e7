// SPDX-License-Identifier: Apache-2.0
// First values of parameters, and hashes of states. Both go by global element index, so that a rank
// makes or hashes only its own shard and neither stage nor rank count shows in the result.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Elements [first_in_tensor, first_in_tensor + elems) of parameter number `tensor` (registration
/// order). uniform: u in [0, 1) from the upper 53 bits of mix(seed, tensor, i), value
/// (u - 0.5) * 2 sqrt(3) std, rounded to fp32, then to the storage's type.
void init_param(const Context& ctx, Stored dst, std::int64_t elems, std::int64_t first_in_tensor,
                std::int64_t tensor, Init init, double std_dev, std::uint64_t seed);

/// Sum mod 2^64 over p[elems] of a hash of (global element index, bits of the value as fp32): the
/// hashes of the pieces of a partition add up to that of the whole. Waits for the result.
std::uint64_t state_hash(const Context& ctx, ConstStored p, std::int64_t elems,
                         std::int64_t first_global_elem);

}  // namespace shardmark
