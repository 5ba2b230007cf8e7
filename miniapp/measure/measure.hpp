// SPDX-License-Identifier: Apache-2.0
// From raw observations of one run (ledger, counters, clocks) to a Result and an Observed: what was
// predicted beside what was measured, agreed on by all ranks.
#pragma once

#include <vector>

#include <comm/decorators/counting.hpp>
#include <core/memory/ledger.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/execute/step_runner.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// What this rank noted down while it ran.
struct Noted {
  std::vector<double> losses, norms, seconds, lrs, loss_scales;  // by step of this run
  std::vector<bool> skipped;                                     // the same
  LaneTimes times;                                               // of the timed steps
  LinkTimesByDirection link{};                                   // of the timed steps
  std::int64_t matmul_ns = 0;                                    // of the timed steps
  double timed_s = 0;                                            // barrier to barrier
  std::int64_t first_step = 0;         // of this run: those before are a checkpoint's
  std::int64_t steps = 0, warmup = 0;  // timed and not, of this run
  std::int64_t rss_start = 0, rss_peak = 0;
  DeviceLooks device;
};

/// Collective. Rows of losses.csv: losses averaged over ranks in rank order, times of the slowest
/// rank.
void fill_rows(const Noted& noted, std::int64_t accumulation, Peers& peers, Result& result);

/// Collective. Ledger against the footprint of the segments that `ran`; `observed` gets the first
/// rank's difference.
void compare_memory(const Program& program, const std::vector<bool>& ran,
                    const LedgerSnapshot& ledger, Peers& peers, Result& result, Observed& observed);

/// Collective. Counters against what the plan says of the `steps` that were run, group by group;
/// `observed` gets the first rank's difference.
void compare_calls(const Program& program, const StepRunner& steps, const CommCounters& counted,
                   Peers& peers, Result& result, Observed& observed);

/// Collective. Bytes and copies over the link against what was predicted, and how long they took.
void compare_copies(const Deck& deck, const LinkVolume& predicted, const LinkVolume& carried,
                    const Noted& noted, Peers& peers, Result& result, Observed& observed);

/// Collective. Whether the bytes of files that the plan has are those that the kernel saw on their
/// way to and from disks.
void compare_disk(const Executor& executor, Peers& peers, Result& result, Observed& observed);

/// Collective. What the records of the timed steps say about time: spans from start to done, and
/// what of them was waiting for the last rank. `clock_offset_ns` as clock_offset_ns().
void time_calls(const Program& program, const CommCounters& counted, std::int64_t clock_offset_ns,
                Peers& peers, Result& result);

/// Collective. The system's own figure against the ledger's.
void compare_system(const Deck& deck, const Noted& noted, const LedgerSnapshot& ledger,
                    Peers& peers, Result& result, Observed& observed);

/// Collective. Times a step, percentiles, the rank with most time of its own, the figure of merit.
void fill_times(const Deck& deck, const Program& program, const Noted& noted,
                const CommCounters& counted, Peers& peers, Result& result);

}  // namespace shardmark
