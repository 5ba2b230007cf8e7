// SPDX-License-Identifier: Apache-2.0
// What was noticed while a deck was read, besides errors. `shardmark deck check` prints these
// findings.
#pragma once

#include <cstdint>
#include <string>

#include <core/enum_array.hpp>

namespace shardmark {

/// The kinds, in the order in which `deck check` lists them.
enum class FindingKind : std::uint8_t {
  warning,    // sound, but probably not what the user meant
  assumed,    // a value that nothing states and that decides the plan, and how to state it
  ignored,    // what DeepSpeed or PEFT does not know and silently ignores; so does ShardMark
  no_effect,  // a known key that changes nothing at this stage or under this schedule
  filled,     // "auto", and what Hugging Face's trainer or DeepSpeed make of it
  derived,    // inferred from other keys, such as the batch triple
  defaulted   // a key that is absent, and the value it took
};
template<>
inline constexpr auto value_names<FindingKind> = name_list("warning", "assumed", "ignored",
                                                           "no effect", "filled", "derived",
                                                           "default");

/// One remark about one key of a deck.
struct Finding {
  FindingKind kind;
  std::string key;           // the path of the key in the deck, as `--set` takes it
  std::string text;          // the reason, or the value
  bool upper_bound = false;  // of what is assumed: the most that the value can be
};

}  // namespace shardmark
