// SPDX-License-Identifier: Apache-2.0
// What the steps of both optimizer classes of DeepSpeed's stages 1 and 2 share.
#pragma once

#include <vector>

#include <core/plan/deepspeed/deepspeed_steps.hpp>
#include <core/plan/deepspeed/stage12/stage12_states.hpp>

namespace shardmark {

/// Steps on flat parameter groups, which every rank holds whole.
class FlatSteps : public DeepSpeedSteps {
 public:
  FlatSteps(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : DeepSpeedSteps(program, deck, profile), states_(c_, groups) {}

  Operand whole_param(int id) const override { return states_.param(id); }

 protected:
  const std::vector<FlatGroup>& groups() const { return states_.groups(); }
  void gather_params() override { states_.gather_params(); }

  FlatStates states_;
};

/// Writes the program where uses_bf16_optimizer holds. `program.partition` is set.
void write_bf16_optimizer(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups);

}  // namespace shardmark
