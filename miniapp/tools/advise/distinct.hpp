// SPDX-License-Identifier: Apache-2.0
// Candidates with the same plan are one answer.
#pragma once

#include <vector>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// Merges candidates of the same schedule and stage whose plans need the same bytes in each tier
/// and the same seconds. The one with the fewest changes remains, and the keys in which the others
/// differ from it become its `without_effect`, with the values that make no difference. The order
/// is kept.
std::vector<Candidate> distinct(std::vector<Candidate> candidates);

/// Merges candidates that `distinct` leaves apart because of their stages alone: with one
/// accumulation step stages 1 and 2 of DeepSpeed do the same. The first one remains.
std::vector<Candidate> distinct_but_for_stage(std::vector<Candidate> candidates);

/// Adds a key with its values to a list in which each key and each value stands once.
void merge_idle(std::vector<IdleKey>& keys, const IdleKey& more);

}  // namespace shardmark
