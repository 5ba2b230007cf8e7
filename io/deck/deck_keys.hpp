// SPDX-License-Identifier: Apache-2.0
// The records of a deck's own keys; io/keys/key.hpp says what a record is.
#pragma once

#include <io/keys/member.hpp>

namespace shardmark {

/// The sections whose keys are read by their records, by name.
std::span<const Section> deck_sections();

/// The records of a section of `deck_sections`.
std::span<const Key> deck_keys(std::string_view section);

/// Returns the record of a path in a deck, `run.steps` or `deepspeed.zero_optimization.stage`, or
/// nullptr if there is none.
const Key* key_at(std::string_view path);

}  // namespace shardmark
