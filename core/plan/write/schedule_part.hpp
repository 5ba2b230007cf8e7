// SPDX-License-Identifier: Apache-2.0
// What each part of a schedule has at hand.
#pragma once

#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// The base of the parts of a schedule, which share its context: the program that is being written,
/// its writer and the schedule's settings. The context must outlive its parts.
template<class Context>
class SchedulePart {
 protected:
  explicit SchedulePart(Context& context) : c_(context), p_(context.program), w_(context.writer) {}

  Context& c_;
  Program& p_;
  PlanWriter& w_;
};

}  // namespace shardmark
