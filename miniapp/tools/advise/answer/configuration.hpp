// SPDX-License-Identifier: Apache-2.0
// A candidate in words.
// Names the model that an answer is about, in a line and in JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>
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

/// "llama-7b (llama, 6.738 billion parameters: 32 layers of width 4096, sequence 2048, bf16)".
std::string model_line(const Deck& deck, std::int64_t parameters);

/// "schedule deepspeed, micro-batch 2, 1 accumulation step, with recomputation".
std::string settings_line(const Deck& deck, const Batch& batch);

/// {"name", "family", "parameters", "layers", "hidden", "sequence", "precision"}.
nlohmann::ordered_json model_object(const Deck& deck, std::int64_t parameters);

/// {"schedule", "micro_batch", "accumulation_steps", "recomputation"}.
nlohmann::ordered_json settings_object(const Deck& deck, const Batch& batch);

/// "6.738 billion", "124.4 million", "12345".
std::string count_words(std::int64_t count);

}  // namespace shardmark
