// SPDX-License-Identifier: Apache-2.0
// The estimates of other tools for model states, to be printed beside our exact figures:
// DeepSpeed's two helper functions and the formulas of the ZeRO paper. They leave out buckets,
// gathered parameters, padding and activations.
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

/// Returns the figures of a model that DeepSpeed's estimators take. They treat each module with
/// parameters of its own as a layer, and so does this function. If `ranks_per_node` does not divide
/// the world, all ranks count as one node.
EstimateInput estimate_input(const ModelShape& model, int world, int ranks_per_node);

/// DeepSpeed's estimate_zero2_model_states_mem_needs (0.14.3 and later), with and without offload
/// to the CPU.
std::vector<StateEstimate> estimate_zero2(const EstimateInput& input);
/// DeepSpeed's estimate_zero3_model_states_mem_needs: parameters and optimizer on the CPU or not,
/// with and without zero.Init.
std::vector<StateEstimate> estimate_zero3(const EstimateInput& input);

/// Bytes per rank of mixed-precision Adam (K = 12) on `ranks` ranks, after section 5 of the ZeRO
/// paper: stage 0 is the baseline, stage 1 P_os, stage 2 P_os+g, stage 3 P_os+g+p.
double paper_state_bytes(double params, int ranks, int stage);

/// A figure as Table 1 of the paper prints it, in GB of 1e9 bytes: from 100 on truncated to an
/// integer, from 10 on rounded to one decimal, otherwise to two; without trailing zeros.
std::string paper_digits(double gigabytes);

/// All estimates as lines of text for `shardmark plan`.
std::string print_estimates(const ModelShape& model, int world, int ranks_per_node);

}  // namespace shardmark
