// SPDX-License-Identifier: Apache-2.0
// The value "auto" in a DeepSpeed config, which Hugging Face's trainer replaces before DeepSpeed
// reads the config. io/hf/config_filler.hpp does the same if a deck has the section `hf`.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// Returns the key of the section `hf` from which the trainer takes the value of `key`, a path
/// below `deepspeed`; empty if the trainer does not fill that key.
std::string_view hf_key_of(std::string_view key);

/// Returns what to do about an "auto" that nobody has filled, as the end of a message.
std::string auto_remedy(std::string_view key);

}  // namespace shardmark
