// SPDX-License-Identifier: Apache-2.0
// The parameter groups that DeepSpeed makes for Muon: each group falls into the matrices of hidden
// layers, in descending order of their shapes, and the rest, which AdamW updates.
//
// Source: DeepSpeed 0.19's runtime/engine.py, _muon_param_groups, and original_muon.py,
// MuonWithAuxAdam.
#pragma once

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// Divides the optimizer's groups of `model`, each into its matrices and then the rest, and marks
/// the matrices. DeepSpeed takes what has at least two dimensions, unless its name contains "embed"
/// or "lm_head" in any case. Transformers are judged by the roles of their modules instead, since
/// some of their names say less. Throws DeckError, which names `path`, if a matrix has more than
/// two dimensions.
void divide_for_muon(ModelShape& model, const std::string& path);

/// Whether a group of `model`, whose groups are divided, has the matrices.
inline bool has_matrices(const ModelShape& model, const std::vector<int>& group) {
  return !group.empty() && model.params[group.front()].hidden_matrix;
}

}  // namespace shardmark
