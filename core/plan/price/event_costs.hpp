// SPDX-License-Identifier: Apache-2.0
// What the events of one rank's program take on a machine, each alone on its lane: event_time.hpp
// asked for what a plan contains.
#pragma once

#include <vector>

#include <core/plan/plan.hpp>
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

}  // namespace shardmark
