// SPDX-License-Identifier: Apache-2.0
// What others estimate for model states, beside our exact figures: DeepSpeed's two helpers and the
// ZeRO paper's formulas. They know nothing of buckets, gathered parameters, padding or activations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// One row of DeepSpeed's table: bytes for the CPU memory of a node and for one GPU.
struct StateEstimate {
  std::string options;  // "offload_optimizer=cpu"
  std::int64_t cpu_bytes = 0, gpu_bytes = 0;
};

/// The sizes from which DeepSpeed's estimators and the paper's formulas compute.
struct EstimateInput {
  std::int64_t params = 0, largest_layer_params = 0;
  std::int64_t ranks_per_node = 1, nodes = 1;
};

/// A layer is a module with its own parameters, as DeepSpeed counts. `ranks_per_node` must divide
/// the world; else all ranks count as one node.
EstimateInput estimate_input(const ModelShape& model, int world, int ranks_per_node);

/// estimate_zero2_model_states_mem_needs, DeepSpeed 0.14.3 and later: with offload to the CPU, and
/// without.
std::vector<StateEstimate> estimate_zero2(const EstimateInput& input);
/// estimate_zero3_model_states_mem_needs: (parameters, optimizer) to the CPU or not, with and
/// without zero.Init.
std::vector<StateEstimate> estimate_zero3(const EstimateInput& input);

/// Bytes a rank of mixed-precision Adam (K = 12) on `ranks` ranks, by the ZeRO paper, section 5:
/// stage 0 is the baseline, 1 P_os, 2 P_os+g, 3 P_os+g+p.
double paper_state_bytes(double params, int ranks, int stage);

/// A figure as the paper's Table 1 prints it, in GB of 1e9 bytes: integers from 100 on (cut), one
/// decimal from 10 on, else two (rounded); without trailing zeros.
std::string paper_digits(double gigabytes);

/// All of it as lines of text for `shardmark plan`.
std::string print_estimates(const ModelShape& model, int world, int ranks_per_node);

}  // namespace shardmark
