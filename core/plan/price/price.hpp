// SPDX-License-Identifier: Apache-2.0
// The interpreter that answers how long a step takes. It replays the events of a program's steady
// step on their lanes: every event has the duration that EventTimes looks up, starts when its lane
// and the events that it comes after allow it, and slows down or is slowed by what runs beside it.
// Pure; linear in the number of events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/price/event_time.hpp>
#include <core/plan/price/machine.hpp>

namespace shardmark {

/// What a price depends on besides program and machine.
struct PriceOptions {
  int ranks_per_node = 1;
  Speeds speeds;                     // faster or slower resources, to ask what limits a step
  double delay_s = 0;                // comm.delay_ms: each collective takes at least this long
  double host_link_bytes_per_s = 0;  // machine.host_link_gbps: an emulated link; 0: none
  bool keep_events = true;           // PricedStep::events
};

/// When an event runs, from the start of the step.
struct PricedEvent {
  std::int32_t segment = 0, event = 0;  // event -1: the wait at a segment's end
  double issue_s = 0;                   // when the rank reaches it
  double begin_s = 0, end_s = 0;        // when its lane works on it
  double waited_s = 0;                  // of the compute lane, for collectives or copies
};

/// Seconds of one step of one rank.
struct PricedStep {
  double step_s = 0;
  EnumArray<Phase, double> phase_s{};  // of the compute lane, waiting included; they add up to the
                                       // step, less what a step costs in addition to its events
  double copies_s = 0;                 // of the compute lane, making copies or waiting for them
  double exposed_s = 0;  // of the compute lane, waiting for collectives or making them progress
  double hidden_s = 0;   // collectives in flight beside computation
  EnumArray<Lane, double> busy_s{};
  EnumArray<Lane, double> waiting_s{};  // of the compute lane, for each lane
  Cost busy_by_resource;                // what all events take, wherever they run
  Cost critical;                        // the same for the events on the critical path
  double flops = 0;                     // of matrix products
  std::vector<PricedEvent> events;      // repeated segments at most twice
  Extrapolations extrapolations;

  /// The part of the step in which the host limits it.
  double host_share() const { return step_s > 0 ? critical[Resource::host] / step_s : 0; }
};

/// Prices the steady step of a program whose ranks all behave like its rank.
PricedStep price(const Program& program, const Machine& machine, const PriceOptions& options = {});

/// Prices the steady step of several ranks that communicate with each other, one result each. A
/// collective starts when the last of them has arrived; ranks that are not given behave like one
/// of them. Throws PlanError if their collectives do not agree.
std::vector<PricedStep> price(const std::vector<const Program*>& ranks, const Machine& machine,
                              const PriceOptions& options = {});

}  // namespace shardmark
