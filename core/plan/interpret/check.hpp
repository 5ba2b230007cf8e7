// SPDX-License-Identifier: Apache-2.0
// Is a program legal? Proved from the events alone, along every path that the driver may take, and
// across ranks. A plan that fails here is a bug in a schedule, never a user's mistake.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// One rule each; the name is what the message starts with.
enum class Rule : std::uint8_t {
  not_alive,       // a slot is used, or released, that is not alive
  acquired_twice,  // a slot is acquired that is alive
  not_released,    // what is alive at a segment's end is not what its exit declares
  junction,        // a segment's entry is not the exit of the one that the driver runs before it
  bounds,          // an operand reaches beyond its slot
  undefined_read,  // a range is read that nothing has written
  race,            // two queues touch a range, one of them writes, and no order edge lies between
  edge,            // an order edge points at no earlier event
  gradient,    // a gradient is reduced twice, not at all or not by all, or lost, or applied before
  collective,  // sizes, root, reduction or group of a collective do not fit together
  tiers,       // a compute or a collective reaches into another tier, or a copy does not
  divisor,     // a kernel divides that does not, or by no positive number
  ranks_disagree  // ranks do not have the same groups, collectives and order of these
};
std::string_view to_string(Rule rule);

/// One place of a program that breaks a rule.
struct Violation {
  Rule rule;
  std::string where;  // "micro_only, event 12": segment and event
  std::string what;
};

/// All violations on one rank's program along init and the optimizer steps, done and skipped, until
/// they repeat themselves. Empty: legal.
std::vector<Violation> check(const Program& program);

/// Whether the ranks agree, collective by collective, group by group: on who is in a group, on what
/// groups of one name issue, and on the order in which they go through their groups.
/// `program_of(rank)` builds a rank's program; one is held at a time. Checks `ranks` (in any order;
/// at least one).
std::vector<Violation> check_ranks(const std::vector<int>& ranks,
                                   const std::function<Program(int)>& program_of);

/// Throws PlanError with the first violations, where there are any.
void require_legal(const std::vector<Violation>& violations);

}  // namespace shardmark
