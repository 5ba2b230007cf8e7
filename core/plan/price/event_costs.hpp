// SPDX-License-Identifier: Apache-2.0
// What the events of one rank's program take on a machine, each alone on its lane: event_time.hpp
// asked for what a plan contains.
// Ranks that do the same work are not equally fast, and a collective waits for the last of them.
#pragma once

#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/price/machine.hpp>
#include <core/plan/price/price.hpp>

namespace shardmark {

/// Looks up each segment when it is first asked for.
class EventCosts {
 public:
  struct Taken {
    Cost cost;
    double flops = 0;        // of matrix products
    double launching_s = 0;  // of the host beside a device
  };

  /// `program` and `machine` must outlive it.
  EventCosts(const Program& program, const Machine& machine, const PriceOptions& options);

  /// What the events of a segment take, by index.
  const std::vector<Taken>& of_segment(std::int32_t segment);
  CollectiveShape shape_of(const Event& event) const;
  const Extrapolations& extrapolations() const { return times_.extrapolations(); }

 private:
  Taken look_up(const Event& event);

  const Program& program_;
  int ranks_per_node_;
  EventTimes times_;
  WorkOptions work_;
  std::vector<std::vector<Taken>> segments_;
};

/// The expected maximum of `n` draws from the standard normal distribution, 0 for one draw. Blom's
/// formula (Statistical Estimates and Transformed Beta-Variables, 1958) with the quantile of
/// Abramowitz and Stegun 26.2.23; right to 0.01.
double slowest_draw(int n);

/// How much later than their mean the last of `ranks` ranks of a node ends work that takes `work_s`
/// seconds and that they began together: as measured, or in proportion to the expected maximum of
/// so many normal draws. 0 if the machine file does not know.
double rank_skew_s(const RankSkew& skew, int ranks, double work_s);

/// By which factor a step of `ranks` ranks takes longer than one of `ranks_per_node` ranks, because
/// equal ranks are not equally fast (Jitter::rank_relative_sd). What was measured on a node
/// contains the slowest rank of the node already.
double straggler_factor(const Machine& machine, int ranks, int ranks_per_node);

}  // namespace shardmark
