// SPDX-License-Identifier: Apache-2.0
// `--set key.path=value`: changes one value of a deck after all of the deck has been read.
#pragma once

#include <string>

#include <io/json/json_source.hpp>

namespace shardmark {

/// One `--set`, split into key and value.
struct Override {
  std::string
      key;     // dots separate the parts; array elements are selected by index, `a.0` or `a[0]`
  Json value;  // the text after `=`: as JSON if it is JSON, otherwise as a string
};

/// Throws DeckError if there is no `=`, a part of the path is empty, or the value has duplicate
/// keys or is not UTF-8.
Override parse_override(const std::string& argument);

/// Sets the value in `deck`; missing sections are created as objects. Throws DeckError if a part
/// lies below a value that has no parts, or an index is beyond its array.
void apply_override(Json& deck, const Override& override_);

}  // namespace shardmark
