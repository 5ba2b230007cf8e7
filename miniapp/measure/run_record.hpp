// SPDX-License-Identifier: Apache-2.0
// What one rank records while it runs, as plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include <core/memory/process_memory.hpp>
#include <core/memory/slot_watch.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/measure/clock_readings.hpp>
#include <miniapp/measure/device_figure.hpp>
#include <miniapp/ranks/stop_signals.hpp>

namespace shardmark {

/// What the sections `perturb` and `congestion` of a deck made this rank do beside its work.
struct EmulatedTraffic {
  std::int64_t written_bytes = 0;   // to memory
  std::int64_t received_bytes = 0;  // from other ranks
  std::int64_t buffer_bytes = 0;    // resident memory for both, which is in no ledger
};

/// The values of one rank. `collect_results` compares them over ranks and with the plan.
struct RunRecord {
  // By step of this run:
  std::vector<double> losses, norms, seconds, lrs, loss_scales;
  std::vector<LaneTimes> step_times;
  std::vector<double> injected_seconds;  // by how much `perturb` held this rank up
  std::vector<double> memory_traffic;    // bytes that `perturb` wrote to memory beside it
  std::vector<double> core_to_core_s;    // before it, from this rank to its neighbour; 0: unknown
  std::vector<bool> skipped, proved;
  // Of the timed steps:
  LaneTimes times;
  LinkTimesByDirection link{};
  std::int64_t matmul_ns = 0;
  std::int64_t in_flight_ns = 0;           // with at least one collective in flight
  std::vector<std::size_t> sampled_steps;  // whose collectives were recorded, counted from 0
  double timed_s = 0;  // from barrier to barrier, without checkpoints and copies for the replay
  ClockSpans clocks;   // from barrier to barrier, with checkpoints

  std::int64_t first_step = 0;         // of this run; a checkpoint contains the steps before
  std::int64_t steps = 0, warmup = 0;  // of this run: timed steps, and those before them
  // Resident memory in bytes: at the start of the session, pages of files in it, and at most.
  std::int64_t rss_start = 0, rss_start_files = 0, rss_peak = 0;
  std::int64_t rss_libraries = 0;    // what a device added to it until the end of the first step
  std::int64_t kept_bytes = 0;       // of it: the states that are kept for the replay
  EmulatedTraffic emulated;          // in the timed steps
  OutsideMemory outside;             // the most that was seen
  SlotUse slots;                     // in start-up and warm-up
  StopCause stop = StopCause::none;  // why the run ended before its last step
  DeviceLooks device;

  /// The part of a list with one value per step that belongs to the timed steps.
  std::vector<double> timed_part(const std::vector<double>& by_step) const {
    return {by_step.begin() + std::min<std::ptrdiff_t>(warmup, std::ssize(by_step)), by_step.end()};
  }
};

}  // namespace shardmark
