// SPDX-License-Identifier: Apache-2.0
// A candidate in words.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// Of the keys beyond stage, schedule, batch and recomputation, those whose values differ from
/// `given`, the deck's, and what is offloaded, in short: "optimizer on cpu, hpZ 8".
std::string extras(const Candidate& candidate, const std::vector<std::string>& given);

/// "stage 3, micro-batch 2 with 1 accumulation step, without recomputation, hpZ 8"; with the
/// schedule where the framework has several.
std::string configuration(const Candidate& candidate, Framework framework,
                          const std::vector<std::string>& given);

/// What `other` does in another way than `best`: "stage 2, bucket 200000000" or "the same with hpZ
/// 16 instead of 8".
std::string beside(const Candidate& other, const Candidate& best, Framework framework,
                   const std::vector<std::string>& given);

/// A refusal of `deck` as a part of a sentence: without the deck's path and without the colon after
/// the key.
std::string refusal_clause(const Deck& deck, std::string refusal);

}  // namespace shardmark
