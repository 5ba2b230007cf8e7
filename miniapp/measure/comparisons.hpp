// SPDX-License-Identifier: Apache-2.0
// Compares what a run measured (ledger, counters, the system's figures) with what its plan
// predicted. Each comparison fills the report's figures in a Result, and puts the difference that
// the lowest rank found into an Observed; an empty text means that no rank found one.
#pragma once

#include <vector>

#include <comm/decorators/counting.hpp>
#include <core/memory/ledger.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <miniapp/execute/routed_excess.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/measure/run_record.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. The ledger, with the footprint of the segments that `ran`, and how slots were used.
void compare_memory(const Program& program, const std::vector<bool>& ran,
                    const LedgerSnapshot& ledger, const SlotUse& slots, Peers& peers,
                    Result& result, Observed& observed);

/// What a rank has counted: its collectives, how often the executor ran each segment, and what
/// routing made the experts' ranks send beyond the plan.
struct CountedRuns {
  const CommCounters& collectives;
  const SegmentRuns& segments;
  const RoutedExcess& routed;
};

/// Collective. What was counted, with the segments that had to run and the collectives that the
/// plan has in them, group by group, with what routing added.
void compare_calls(const Program& program, const SegmentRuns& runs, const CountedRuns& counted,
                   Peers& peers, Result& result, Observed& observed);

/// Collective. Copies and bytes over the link, with the prediction; also how long they took.
void compare_copies(const Deck& deck, const LinkVolume& predicted, const LinkVolume& carried,
                    const RunRecord& record, Peers& peers, Result& result, Observed& observed);

/// Collective. What the kernel transferred to and from disks, with the bytes that the run `carried`
/// to and from the plan's files.
void compare_disk(const LinkVolume& carried, const DiskResult& kernel, Peers& peers, Result& result,
                  Observed& observed);

/// Collective. The memory that the system counts for this process and its device, with the
/// ledger's.
void compare_system(const Deck& deck, const RunRecord& record, const LedgerSnapshot& ledger,
                    Peers& peers, Result& result, Observed& observed);

}  // namespace shardmark
