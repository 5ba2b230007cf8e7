// SPDX-License-Identifier: Apache-2.0
// What reading a deck noticed without being an error: `shardmark deck check` prints these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardmark {

/// In the order in which `deck check` lists them.
enum class FindingKind : std::uint8_t {
  warning,    // sound, but probably not what was meant
  ignored,    // a key that DeepSpeed does not know and silently passes over, as we do
  no_effect,  // a known key that changes nothing at this stage or under this schedule
  derived,    // inferred from other keys: the batch triple
  defaulted   // a key that is absent, and the value it took
};
std::string_view to_string(FindingKind);

/// One remark about one key of a deck.
struct Finding {
  FindingKind kind;
  std::string key;   // the deck's key path, as `--set` takes it
  std::string text;  // why, or the value
};

}  // namespace shardmark
