// SPDX-License-Identifier: Apache-2.0
// The buckets of DistributedDataParallel: which gradients are reduced together, and in which order;
// and which rank updates which tensors if ZeroRedundancyOptimizer shares them out.
//
// Source: torch 2.15, torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size,
// and torch/nn/parallel/distributed.py.
#pragma once

#include <vector>

#include <core/plan/deck/torch_spec.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// A bucket closes when it has reached its cap, so it may exceed it.
using DdpBuckets = std::vector<std::vector<int>>;

/// Cuts `params` into buckets in their order. `caps` are in bytes: that of the first bucket, of the
/// second, …; the last one serves all further buckets.
DdpBuckets cut_into_buckets(const ModelShape& model, const std::vector<int>& params,
                            const std::vector<std::int64_t>& caps, std::int64_t bytes_per_elem);

/// The caps of the first and of the other buckets.
std::vector<std::int64_t> bucket_caps(const TorchSpec& spec);

/// The buckets until PyTorch knows in which order gradients become ready: all in one, or with
/// find_unused_parameters in reverse order of `params`, which are in registration order.
DdpBuckets first_buckets(const ModelShape& model, const TorchSpec& spec,
                         const std::vector<int>& params, std::int64_t bytes_per_elem);

/// The order in which PyTorch's backward makes gradients ready.
std::vector<int> torch_ready_order(const ModelShape& model);

/// By parameter: the rank that updates it under ZeroRedundancyOptimizer, which gives each tensor,
/// the largest ones first, to the rank that has the fewest elements so far. `order` lists the
/// tensors as they are given out.
///
/// Source: torch 2.15, zero_redundancy_optimizer.py, _partition_parameters.
struct ZeroOwners {
  std::vector<int> rank_of, order;
};
ZeroOwners zero_owners(const ModelShape& model, const std::vector<int>& params, int world);

}  // namespace shardmark
