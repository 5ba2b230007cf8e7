// SPDX-License-Identifier: Apache-2.0
// Names the model that an answer is about, in a line and in JSON.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

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
