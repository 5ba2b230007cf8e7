// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel: all ranks hold all states. Gradients are reduced in buckets while
// backward still runs. Until PyTorch has seen in which order gradients become ready there is one
// bucket (see ddp_buckets.hpp); then rank 0 tells the others its order, and buckets are made anew.
//
// With ZeroRedundancyOptimizer each rank keeps the optimizer states of some tensors, updates those,
// and broadcasts each of them.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

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
