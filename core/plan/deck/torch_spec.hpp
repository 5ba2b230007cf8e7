// SPDX-License-Identifier: Apache-2.0
// The section `torch` of a deck: what a training script passes to PyTorch's DistributedDataParallel
// and fully_shard. Names and defaults are PyTorch 2.15's; docs/fsdp.md explains each key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/deck/types.hpp>

namespace shardmark {

struct TorchSpec {
  // fully_shard, at stages 2 and 3.
  /// The calls in their order. Each call names one module or a list of modules; "" is the root.
  /// Empty: one call per block, then one for the root.
  std::vector<std::vector<std::string>> fully_shard;
  std::optional<bool> reshard_after_forward;  // empty: true for all but the root
  std::int64_t reshard_ranks = 0;  // reshard_after_forward is this integer; 0: it is not one
  std::int64_t mesh_replicate = 1, mesh_shard = 0;           // `mesh`; mesh_shard 0: the world
  std::int64_t shard_dim = 0;                                // of shard_placement_fn
  std::optional<Dtype> param_dtype, reduce_dtype;            // of mp_policy
  bool cpu_offload = false, pin_memory = true;               // offload_policy
  std::int64_t forward_prefetch = 0, backward_prefetch = 0;  // modules; 0: PyTorch's default
  // Where one of these is false, the script sets it for the last micro-batch of a step only.
  bool requires_gradient_sync = true, requires_all_reduce = true, reshard_after_backward = true;
  bool is_last_backward = true;
  std::vector<std::string> stays_sharded_in_backward;  // set_unshard_in_backward(False)
  std::optional<double> gradient_divide_factor;
  bool force_sum_reduction = false;
  std::int64_t max_input_buffers = 1;  // set_reduce_scatter_max_input_buffers

  /// Parameters that need no gradient: names of parameters, or of modules that hold them.
  std::vector<std::string> frozen;

  // DistributedDataParallel, at stages 0 and 1.
  std::optional<double> bucket_cap_mb;  // empty: 25, with a first bucket of 1
  bool find_unused_parameters = false, static_graph = false;
  bool gradient_as_bucket_view = false, init_sync = true, no_sync = true;
  // ZeroRedundancyOptimizer, at stage 1.
  bool parameters_as_bucket_view = false;
  bool operator==(const TorchSpec&) const = default;
};

}  // namespace shardmark
