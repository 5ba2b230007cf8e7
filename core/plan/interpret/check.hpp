// SPDX-License-Identifier: Apache-2.0
// Proves that a program is legal, from the events alone, along every path that the driver can take,
// and across ranks. A plan that fails here shows a bug in a schedule, never a mistake of the user.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The rules. A message starts with the name of the rule that is broken.
enum class Rule : std::uint8_t {
  not_alive,       // a slot is used or released while it is not alive
  acquired_twice,  // a slot is acquired while it is alive
  not_released,    // the slots alive at a segment's end are not those that its exit declares
  junction,        // a segment's entry differs from the exit of the segment that runs before it
  bounds,          // an operand reaches beyond its slot
  undefined_read,  // a range is read before it is written
  race,            // two queues touch a range, one of them writes, and no order edge lies between
  edge,            // an order edge does not point at an earlier event
  gradient,       // a gradient is reduced twice, or not by all ranks, or lost, or applied too early
  collective,     // sizes, root, reduction or group of a collective do not fit together
  tiers,          // a compute or a collective uses another tier, or a copy stays within one tier
  divisor,        // the divisor is not positive, or the kernel does not divide
  ranks_disagree  // ranks differ in their groups, their collectives or the order of these
};
template<>
inline constexpr auto value_names<Rule> = name_list("not_alive", "acquired_twice", "not_released",
                                                    "junction", "bounds", "undefined_read", "race",
                                                    "edge", "gradient", "collective", "tiers",
                                                    "divisor", "ranks_disagree");

/// One place of a program that breaks a rule.
struct Violation {
  Rule rule;
  std::string where;  // "micro_only, event 12": segment and event
  std::string what;
};

/// All violations in one rank's program during start-up and optimizer steps, done and skipped,
/// until the steps repeat. A legal program has none.
std::vector<Violation> check(const Program& program);

/// Checks that `ranks` (at least one, in any order) agree on the members of each group, on the
/// collectives that groups of one name issue, and on the order in which a rank goes through its
/// groups. `program_of(rank)` builds a rank's program, of which the collectives are enough; one
/// program is held at a time.
std::vector<Violation> check_ranks(const std::vector<int>& ranks,
                                   const std::function<Program(int)>& program_of);

/// Throws PlanError with the first violations, if there are any.
void require_legal(const std::vector<Violation>& violations);

}  // namespace shardmark
