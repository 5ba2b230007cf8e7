// SPDX-License-Identifier: Apache-2.0
// What a schedule and each of its parts have at hand.
#pragma once

#include <core/plan/plan.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// The program that is being written, with its writers; a schedule's context adds its settings.
struct ScheduleContext {
  ScheduleContext(Program& p, const Profile& machine)
      : program(p), writer(p), compute(p, writer, machine) {}
  ScheduleContext(const ScheduleContext&) = delete;
  ScheduleContext& operator=(const ScheduleContext&) = delete;

  Program& program;
  PlanWriter writer;
  ComputeWriter compute;
};

/// The base of the parts of a schedule, which share its context. The context must outlive its
/// parts.
template<class Context>
class SchedulePart {
 protected:
  explicit SchedulePart(Context& context) : c_(context), p_(context.program), w_(context.writer) {}

  Context& c_;
  Program& p_;
  PlanWriter& w_;
};

}  // namespace shardmark
