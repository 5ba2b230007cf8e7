// SPDX-License-Identifier: Apache-2.0
// The part of check that follows gradients: by parameter (made, reduced once, applied) and by value
// (what reaches the optimizer is what a reduction delivered, not what this rank alone summed).
//
// A reduction may be of two levels, each a group: every gradient goes through both, once.
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
  /// `report` takes what is wrong. The program must outlive it.
  GradientCheck(const Program& program, std::function<void(std::string)> report);

  /// Before the first segment of a walk.
  void start();
  /// The next event, in the order in which the rank issues them.
  void follow(const Event& event);
  /// Compares a segment's exit with what it declares.
  void at_exit(Gradients declared) const;
  /// A skipped step: pending gradients are dropped.
  void drop();

 private:
  // A bit a level, by its group: the reductions that a gradient still needs.
  using Levels = unsigned;
  struct Pending {
    Levels missing = 0;
    bool reduced = false;
  };
  Levels find_levels() const;
  void follow_params(const Event& event);
  void follow_values(const Event& event);
  void reduce_values(const Event& event);
  static void copy_values(std::vector<Intervals>& slots, const Operand& into, const Operand& from,
                          bool adds);
  void require_reduced(const Event& event);
  const Operand& nth(const Event& event, std::size_t i) const;
  template<class Each>
  void each_level(Each each);

  const Program& p_;
  std::function<void(std::string)> report_;
  std::vector<Pending> pending_;  // by parameter
  Levels levels_ = 1;             // of the program: the world, or two groups
  // By group and slot: elements whose gradients lack that group's reduction.
  std::array<std::vector<Intervals>, max_groups> lacking_;
};

}  // namespace shardmark
