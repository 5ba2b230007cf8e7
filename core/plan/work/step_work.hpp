// SPDX-License-Identifier: Apache-2.0
// Sums of work over a step, and the FLOPs that a model needs by the usual formulas.
#pragma once

#include <core/plan/work/work.hpp>

namespace shardmark {

/// What one rank computes in a phase of a step.
struct PhaseWork {
  double flops = 0;           // of matrix products
  double streamed_bytes = 0;  // of all other kernels
  double launches = 0;
};

/// Of the steady step of `program`, by phase.
EnumArray<Phase, PhaseWork> steady_work(const Program& program, const WorkOptions& options = {});

/// The FLOPs that the model needs per token in forward and backward: 6 per weight of a matrix
/// product (the head included, embeddings not, of experts as many as a token has), and 12 * layers
/// * hidden * sequence for attention without regard to the causal mask (Chowdhery et al., PaLM,
/// 2022, appendix B). Recomputation does not count. If ranks divide the model, it is what all of
/// them need together. 0 for a list.
double model_flops_per_token(const ModelShape& model);

}  // namespace shardmark
