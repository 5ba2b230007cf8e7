// SPDX-License-Identifier: Apache-2.0
// Times and losses of a run over all ranks, from what each rank recorded.
#pragma once

#include <cstdint>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/measure/run_record.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. Rows of losses.csv: losses averaged over ranks in rank order, times of the slowest
/// rank.
void fill_rows(const RunRecord& record, std::int64_t accumulation, Peers& peers, Result& result);

/// Returns how long each timed step took, in seconds, on the slowest rank. `rows` are filled.
std::vector<double> timed_seconds(const RunRecord& record, const std::vector<LossRow>& rows);

/// Collective. How long the collectives of the sampled steps took from start to end, and how much
/// of that was waiting for the last rank; and how long the others waited for each rank per step.
/// `calls` are the records of these steps, `clock_offset_ns` is that of clock_offset_ns(). The
/// rows of `result` must be filled.
void time_calls(const Program& program, const RunRecord& record,
                const std::vector<CollectiveRecord>& calls, std::int64_t clock_offset_ns,
                Peers& peers, Result& result);

/// Collective. Times per step, percentiles, the rank that needs most time of its own, and the
/// figure of merit.
void fill_times(const Deck& deck, const Program& program, const RunRecord& record, Peers& peers,
                Result& result);

/// For each collective, when it began to have its lane to itself: at its own start or at the end of
/// the collective before it, whichever is later. Each group is a lane. `records` are in order of
/// completion, in which lanes run them.
std::vector<std::int64_t> lane_begins_ns(const std::vector<CollectiveRecord>& records);

}  // namespace shardmark
