// SPDX-License-Identifier: Apache-2.0
// The collectives of a schedule whose scratch is one buffer: the lane runs them one after another.
#pragma once

#include <span>

#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Issues collectives of floating-point data, with scratch if they need any.
class StagedCollectives {
 public:
  StagedCollectives(PlanWriter& writer, const Program& program, const Profile& profile)
      : w_(writer), p_(program), profile_(profile) {}

  /// Notes that the scratch must serve a collective of `elems` elements over `ranks` ranks.
  void need_over(int ranks, Op op, Dtype dtype, std::int64_t elems);
  /// The same for the ranks of a group, an index of Program::groups.
  void need(int group, Op op, Dtype dtype, std::int64_t elems) {
    need_over(size_of(group), op, dtype, elems);
  }
  /// Declares the scratch, once all that it must serve is noted.
  void declare();
  /// The slot of the scratch; no_slot if no collective needs any.
  int scratch() const { return scratch_; }
  void acquire() {
    if (scratch_ != no_slot) w_.acquire(scratch_);
  }

  /// Issues one, of which `send` and `receive` have the event's type or are byte views.
  Event& issue(Op op, Reduction reduction, Operand send, Operand receive,
               std::span<const int> params = {}, int root = -1, int group = of_partition);

 private:
  int size_of(int group) const {
    return p_.size_of(group == of_partition ? p_.partition_group : group);
  }
  std::int64_t bytes_of(int ranks, Op op, Dtype dtype, std::int64_t elems) const;

  PlanWriter& w_;
  const Program& p_;
  const Profile& profile_;
  std::int64_t bytes_ = 0;
  int scratch_ = no_slot;
};

}  // namespace shardmark
