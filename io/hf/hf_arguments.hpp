// SPDX-License-Identifier: Apache-2.0
// The section `hf` of a deck: the arguments of Hugging Face's trainer (`TrainingArguments` of
// transformers 5.24) from which it fills a DeepSpeed config, with the trainer's own defaults.
// Every argument of Hugging Face's trainer as data: `TrainingArguments` of transformers 5.24 and
// what 4.57 has besides. Only files in io/hf use this header.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <io/keys/key_reader.hpp>

namespace shardmark {

/// The arguments by the trainer's names. `given` has those that the deck contains.
struct HfArguments {
  std::int64_t per_device_train_batch_size = 8, gradient_accumulation_steps = 1;
  double learning_rate = 5e-5, weight_decay = 0;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double warmup_steps = 0;  // below 1: a fraction of all steps
  double warmup_ratio = 0;  // of transformers 4: the fraction, if warmup_steps is 0
  std::int64_t max_steps = -1;
  double max_grad_norm = 1;
  bool bf16 = false, fp16 = false, bf16_full_eval = false, fp16_full_eval = false;
  std::optional<std::int64_t> hidden_size;  // for models of the family `list`
  std::optional<bool> checkpointing;        // activation_checkpointing, or gradient_checkpointing
  bool reentrant = false;                   // its use_reentrant
  std::string checkpointing_name;           // as the deck spells it
  std::string optim;                        // empty: the trainer's default, AdamW
  std::set<std::string, std::less<>> given;

  /// Returns the type that the trainer asks Accelerate for: "fp16", "bf16", or nothing.
  std::string mixed_precision() const { return fp16 ? "fp16" : bf16 ? "bf16" : ""; }
  /// Returns `hf.name`, and whether its value is the trainer's default.
  std::string source(std::string_view name) const;
};

/// The length of the sequences that a trainer makes of its data, and the argument that says so.
struct HfSequence {
  std::string name;  // hf.max_length
  std::int64_t length = 0;
};

/// Returns the length in a section `hf`, if one of the names under which trainers take it is given.
/// Throws DeckError if two of them differ.
std::optional<HfSequence> hf_sequence(const Origin& origin, const Json& section);

/// Reads the section; what has no effect becomes a finding. Throws DeckError for values that the
/// trainer does not accept.
HfArguments read_hf(KeyReader reader);

/// What an argument means for a plan.
enum class HfEffect : std::uint8_t {
  used,     // hf_arguments.cpp reads it; most of these are not in the table
  none,     // about data, evaluation, logging, saving or values alone
  refused,  // changes what is planned in a way that is not modelled, unless it has its default
};

/// One argument.
struct HfArgument {
  std::string_view name;
  HfEffect effect = HfEffect::none;
  std::string_view fallback = "null";  // JSON; null and false ask for nothing either
  std::string_view why = {};           // of `refused`: what it changes and what to do
};
std::span<const HfArgument> hf_argument_table();

}  // namespace shardmark
