// SPDX-License-Identifier: Apache-2.0
// Where the values of a deck come from, so that a message names the file that the user must edit;
// and the findings so far: what was noticed besides errors, which `shardmark deck check` prints.
// One Origin accompanies one deck through all its sections.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <core/enum_array.hpp>
#include <io/json/json_source.hpp>

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

/// The files that a deck was read from, and the findings about it.
class Origin {
 public:
  /// `shipped`: the deck was found by its name in the folder of an installation.
  explicit Origin(std::string deck_file, bool shipped = false)
      : deck_file_(std::move(deck_file)), shipped_(shipped) {}

  /// From now on, keys below `section` of the deck come from this file; empty: from the deck.
  void section_file(const std::string& section, std::string file) {
    files_[section] = std::move(file);
  }
  /// From now on, messages name `place` for this key, and in front of what lies below it:
  /// "adapter_config.json: target_modules".
  void stands_at(const std::string& key, std::string place) { places_[key] = std::move(place); }
  /// Records that `--set` gave the value of this key path.
  void overridden(std::string key) { overridden_.push_back(std::move(key)); }

  const std::string& deck_file() const { return deck_file_; }
  /// Returns the folder from which relative paths in the deck start.
  std::string folder() const;
  std::string resolve(const std::string& path) const;
  /// Like `resolve`, for a folder that the program writes to. An installation may be read-only, so
  /// what a shipped deck writes goes below the current folder.
  std::string resolve_output(const std::string& path) const;

  /// Returns the file that gives a section of the deck.
  const std::string& file_of(std::string_view section) const;
  /// Returns `file: key`, or `file (--set): key` if `--set` gave the value.
  std::string place(std::string_view key) const;
  /// Throws DeckError `place = value: what`. `what` states the bound and the remedy.
  [[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view what) const;
  /// Throws DeckError `place: missing: what`.
  [[noreturn]] void missing(std::string_view key, std::string_view what) const;
  /// Throws DeckError for something that a later version may model.
  [[noreturn]] void not_modelled(std::string_view key, const Json& value,
                                 std::string_view remedy) const;

  void note(FindingKind kind, std::string_view key, std::string text);
  std::vector<Finding>& findings() { return findings_; }

 private:
  std::string deck_file_;
  std::map<std::string, std::string, std::less<>> files_;  // by section
  std::map<std::string, std::string> places_;  // of keys that another file gave under another name
  bool shipped_;
  std::vector<std::string> overridden_;
  std::vector<Finding> findings_;
};

/// Returns `a.b`, or one of the two if the other is empty.
std::string join_key(std::string_view parent, std::string_view name);
/// Returns the path above the last part of a path, and that part: "a.b" and "c" of "a.b.c".
std::pair<std::string_view, std::string_view> split_key(std::string_view path);
/// Returns the parts of a text between separators: one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Returns whether `key` is `parent` or lies below it.
bool within(std::string_view key, std::string_view parent);

}  // namespace shardmark
