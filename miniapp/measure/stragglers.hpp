// SPDX-License-Identifier: Apache-2.0
// What slow ranks cost the others, from what each rank recorded.
#pragma once

#include <optional>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/measure/run_record.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Collective. Fills `result.stragglers`, in which time_calls has left the waiting; the rows
/// of `result` are complete. `slowed` are the ranks that the deck makes slower, the same on all
/// ranks.
void fill_stragglers(const RunRecord& record, const std::vector<int>& slowed, Peers& peers,
                     Result& result);

/// What the steps of a run lost. `seconds` has the time of each step, `injected_s` by how much the
/// slowest rank was held up in it. A step loses what it takes longer than the median of the steps
/// in which no rank was held up or wrote to memory beside its work, as `written_bytes` says by
/// step. Pure.
PerturbResult lost_time(const std::vector<double>& seconds, const std::vector<double>& injected_s,
                        const std::vector<double>& written_bytes = {});

/// Collective. What the background traffic of `deck` between `ranks` did in the timed steps; empty
/// if it asks for none.
std::optional<CongestionResult> congestion_result(const Deck& deck, const std::vector<int>& ranks,
                                                  const RunRecord& record, Peers& peers);

}  // namespace shardmark
