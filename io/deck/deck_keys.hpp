// SPDX-License-Identifier: Apache-2.0
// The records of a deck's own keys; io/keys/key.hpp says what a record is.
#pragma once

#include <vector>

#include <io/keys/member.hpp>

namespace shardmark {

/// All sections of a deck but `deepspeed` and `hf`. Keys of `model` that only some families have
/// are in tables of their own, whose owner is "transformer" (all but `list`) or the family.
const std::vector<Section>& deck_sections();

/// The records of a section of `deck_sections`.
std::span<const Key> deck_keys(std::string_view section, std::string_view owner = {});

/// Returns the record of a path in a deck, `run.steps` or `deepspeed.zero_optimization.stage`, or
/// nullptr if there is none.
const Key* key_at(std::string_view path);

/// Returns the paths in a deck of all keys and sections that have this name.
std::vector<std::string> paths_named(std::string_view name);

/// Returns the path in a deck of the key with this member, in the longer one of two spellings.
std::string path_of(const Member& member);

/// The path of the key whose value is at these pointers to members.
template<auto... Path>
const std::string& key_path() {
  static const std::string path = path_of(in<Path...>);
  return path;
}

}  // namespace shardmark
