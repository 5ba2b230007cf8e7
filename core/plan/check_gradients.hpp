// SPDX-License-Identifier: Apache-2.0
// The part of check that follows gradients: by parameter (made, reduced once, applied) and by value
// (what reaches the optimizer is what a reduction delivered, not what this rank alone summed).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <core/plan/intervals.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

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
  struct Pending {
    bool unreduced = false, reduced = false;
  };
  void follow_params(const Event& event);
  void follow_values(const Event& event);
  void copy_values(const Operand& into, const Operand& from, bool adds);
  void require_reduced(const Event& event);
  const Operand& nth(const Event& event, std::size_t i) const;

  const Program& p_;
  std::function<void(std::string)> report_;
  std::vector<Pending> pending_;  // by parameter
  std::vector<Intervals> local_;  // by slot: elements that hold gradients of this rank alone
};

}  // namespace shardmark
