// SPDX-License-Identifier: Apache-2.0
// The part of check that follows gradients: by parameter (each is made, reduced once and applied)
// and by value (the optimizer gets what a reduction delivered, and not a sum of this rank alone).
//
// A reduction may have two levels, one group each. Every gradient goes through both once. An
// all_to_all and a kernel that adds up the parts are a reduction, too.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <core/plan/interpret/intervals.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// Follows the gradients of one program through a walk over its segments.
class GradientCheck {
 public:
  /// `report` is called with each violation. The program must outlive this object.
  GradientCheck(const Program& program, std::function<void(std::string)> report);

  /// Has to be called before the first segment of a walk.
  void start();
  /// Follows the next event, in the order in which the rank issues them.
  void follow(const Event& event);
  /// Compares the gradients at a segment's exit with what the exit declares.
  void at_exit(Gradients declared) const;
  /// Drops the pending gradients, as a skipped step does.
  void drop();

 private:
  // The reductions that a gradient still needs: one bit per level, at the position of its group.
  using Levels = unsigned;
  struct Pending {
    Levels missing = 0;
    bool reduced = false;
  };
  Levels find_levels() const;
  /// Those that the gradient of a parameter needs: of experts that ranks divide, that of the ranks
  /// which have the same ones.
  Levels levels_of(int param) const {
    return p_.model.params[static_cast<std::size_t>(param)].holders == Holders::all ? levels_
                                                                                    : of_experts_;
  }
  void follow_params(const Event& event);
  void follow_values(const Event& event);
  void make_values(const Event& event);
  void reduce_values(const Event& event, const Operand& from, const Operand& into);
  void exchange_values(const Event& event);
  void sum_values(const Event& event, const Operand& parts);
  static void copy_values(std::vector<Intervals>& slots, const Operand& into, const Operand& from,
                          bool adds);
  void require_reduced(const Event& event);
  /// Calls `each` with the elements that lack a reduction, for those among `levels`.
  template<class Each>
  void each_level(Each each, Levels levels = ~0U);

  const Program& p_;
  std::function<void(std::string)> report_;
  std::vector<Pending> pending_;  // by parameter
  Levels levels_ = 1;             // of the program: the world or two groups
  Levels of_experts_ = 0;         // of experts that ranks divide
  // By group and slot: the elements whose gradients lack the reduction of that group.
  std::array<std::vector<Intervals>, max_groups> lacking_;
  std::vector<std::int32_t> exchanged_;  // by slot: the group whose ranks' parts are in it, or -1
};

}  // namespace shardmark
