// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deepspeed/orthogonalizer.hpp>
#include <core/plan/model/muon_sizes.hpp>

namespace shardmark {

void Orthogonalizer::declare(const std::vector<int>& matrices) {
  if (!c_.program.trains || matrices.empty()) return;
  std::int64_t bytes = 0;
  for (const int id : matrices) {
    const std::vector<std::int64_t>& shape = c_.param(id).shape;
    bytes =
        std::max(bytes, muon_workspace(shape[0], shape[1], c_.profile.workspace_cap_bytes).bytes);
  }
  workspace_ = w_.slot("muon", Category::workspace, Dtype::uint8, bytes);
}

void Orthogonalizer::update(int matrix, Operand grad, Operand momentum,
                            std::optional<Operand> staged) {
  std::vector<Operand> operands{grad};
  if (staged) operands.push_back(*staged);
  operands.push_back(momentum);
  if (workspace_ != no_slot) operands.push_back(w_.write(workspace_));
  w_.compute(Kernel::orthogonalize, operands, {&matrix, 1});
}

}  // namespace shardmark
