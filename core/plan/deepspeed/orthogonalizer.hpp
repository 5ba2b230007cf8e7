// SPDX-License-Identifier: Apache-2.0
// The making of Muon's updates of whole matrices, which every stage does in a workspace of its own.
#pragma once

#include <optional>
#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>

namespace shardmark {

/// Declares the workspace and writes the events that use it.
class Orthogonalizer : private DeepSpeedPart {
 public:
  explicit Orthogonalizer(DeepSpeedContext& context) : DeepSpeedPart(context) {}

  /// Start-up: declares the workspace of the largest of `matrices`, which are parameters. A run
  /// without arithmetic has none.
  void declare(const std::vector<int>& matrices);
  void acquire() {
    if (workspace_ != no_slot) w_.acquire(workspace_);
  }
  void release() {
    if (workspace_ != no_slot) w_.release(workspace_);
  }
  /// Makes the update of `matrix` from its gradient, in the gradient's place (u). The new momentum
  /// goes to `staged` (w), and `momentum` is only read (r); without `staged`, it is replaced (u).
  void update(int matrix, Operand grad, Operand momentum, std::optional<Operand> staged = {});

 private:
  int workspace_ = no_slot;
};

}  // namespace shardmark
