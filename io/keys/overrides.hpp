// SPDX-License-Identifier: Apache-2.0
// `--set key.path=value`: changes one value of a deck after everything has been read in.
#pragma once

#include <string>

#include <io/json/json_source.hpp>

namespace shardmark {

/// One `--set`, taken apart.
struct Override {
  std::string key;  // dots between the parts; array elements by index, `a.0` or `a[0]`
  Json value;       // what stands after `=`, as JSON if it is JSON, else as a string
};

/// Throws DeckError: no `=`, an empty part, a value with duplicate keys or text that is not UTF-8.
Override parse_override(const std::string& argument);

/// Sets the value in `deck`; missing sections are created as objects.
/// Throws DeckError: a part lies below a value that has no parts, or an index is beyond the array.
void apply_override(Json& deck, const Override& override_);

}  // namespace shardmark
