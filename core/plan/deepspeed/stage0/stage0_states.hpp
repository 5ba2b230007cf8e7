// SPDX-License-Identifier: Apache-2.0
// Model states of DeepSpeed's stage 0, which every rank holds whole. Muon's hidden matrices lie
// apart from the parameters that AdamW updates.
//
// Source: DeepSpeed 0.19's fused_optimizer.py, unfused_optimizer.py and muon_optimizer.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <core/plan/deepspeed/frozen_params.hpp>
#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// Declares these states and updates them from the gradients of all parameters.
class Stage0States : private StagePart {
 public:
  explicit Stage0States(StageContext& context) : StagePart(context), orthogonalizer_(context) {}

  /// Start-up: makes and broadcasts the parameters, and makes the other states.
  void init();
  /// The parameters that the optimizer updates, in registration order.
  const std::vector<int>& updated() const { return updated_; }
  /// Where a parameter lies.
  Operand param(int id) const;
  /// The update of a step. The clip coefficient is known, and the gradients are alive; those of
  /// Muon's matrices become updates.
  void update();

 private:
  /// Parameters that one rule updates, side by side in registration order.
  struct Group {
    bool matrices = false;  // of Muon
    std::string suffix;     // of the names of its slots
    std::vector<FlatParam> layout;
    std::vector<int> params;
    std::int64_t elems = 0;
    int param = no_slot, grad32 = no_slot;
    int momentum = no_slot;  // of matrices; that of other optimizers is among the states
    StateSlots states;
  };
  struct Place {
    int group = 0;
    std::int64_t offset = 0;
  };

  void lay_out();
  void declare(Group& group);
  void step_on_zeros();
  int declare_grad32(Group& group);
  void update_tensors(const Group& group);
  /// Updates a group's masters from its fp32 gradients, and releases these.
  void update_master(const Group& group, const std::vector<int>& params,
                     std::optional<Operand> rounded);

  Orthogonalizer orthogonalizer_;
  FrozenParams frozen_;
  std::vector<int> updated_;
  std::vector<Group> groups_;
  std::vector<Place> places_;  // by parameter
};

}  // namespace shardmark
