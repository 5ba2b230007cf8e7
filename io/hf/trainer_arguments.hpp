// SPDX-License-Identifier: Apache-2.0
// Every argument of Hugging Face's trainer as data: `TrainingArguments` of transformers 5.24 and
// what 4.57 has besides. Only files in io/hf use this header.
#pragma once

#include <span>
#include <string_view>

namespace shardmark {

/// What an argument means for a plan.
enum class HfEffect : std::uint8_t {
  used,     // hf_arguments.cpp reads it
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
