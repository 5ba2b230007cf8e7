// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, and hashes of states. Both depend on the global element index only,
// so that a rank computes just its own shard, and the result depends neither on the stage nor on
// the rank count.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Writes the elements [first_in_tensor, first_in_tensor + elems) of parameter number `tensor` (in
/// registration order). `uniform`: u in [0, 1) comes from the upper 53 bits of mix(seed, tensor,
/// i), and the value (u - 0.5) * 2 sqrt(3) std is rounded to fp32, then to the type of `dst`. If
/// the rank has a slice of the tensor, the elements are counted in the slice, and i in the whole.
void init_param(const Context& ctx, Stored dst, std::int64_t elems, std::int64_t first_in_tensor,
                std::int64_t tensor, Init init, double std_dev, std::uint64_t seed,
                const TensorSlice& slice = {});

/// Returns the sum mod 2^64 over p[elems] of a hash of (global element index, bits of the value as
/// fp32), so that the hashes of the parts of a partition add up to the hash of the whole. Waits for
/// the result.
std::uint64_t state_hash(const Context& ctx, ConstStored p, std::int64_t elems,
                         std::int64_t first_global_elem);

}  // namespace shardmark
