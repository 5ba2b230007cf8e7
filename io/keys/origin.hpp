// SPDX-License-Identifier: Apache-2.0
// Where a deck's values come from, so that a message names the file that the user must edit, and
// what was noticed on the way. One Origin accompanies one deck through all its sections.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <io/json/json_source.hpp>
#include <io/keys/finding.hpp>

namespace shardmark {

/// The files that a deck was read from, and the findings about it.
class Origin {
 public:
  explicit Origin(std::string deck_file) : deck_file_(std::move(deck_file)) {}

  /// Keys below `deepspeed` come from this file from now on; empty: from the deck itself.
  void deepspeed_file(std::string file) { deepspeed_file_ = std::move(file); }
  /// `--set` gave the value of this key path.
  void overridden(std::string key) { overridden_.push_back(std::move(key)); }

  const std::string& deck_file() const { return deck_file_; }
  /// Folder that relative paths in the deck start from.
  std::string folder() const;
  std::string resolve(const std::string& path) const;

  /// `file: key` or, where `--set` gave the value, `file (--set): key`.
  std::string place(std::string_view key) const;
  /// Throws DeckError `place = value: what`. `what` has the bound and the remedy.
  [[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view what) const;
  /// Throws DeckError `place: missing: what`.
  [[noreturn]] void missing(std::string_view key, std::string_view what) const;
  /// Throws DeckError for a thing that is planned for a later version.
  [[noreturn]] void not_modelled(std::string_view key, const Json& value,
                                 std::string_view remedy) const;

  void note(FindingKind kind, std::string_view key, std::string text);
  std::vector<Finding>& findings() { return findings_; }

 private:
  std::string deck_file_, deepspeed_file_;
  std::vector<std::string> overridden_;
  std::vector<Finding> findings_;
};

/// `a.b`, or just one of them where the other is empty.
std::string join_key(std::string_view parent, std::string_view name);

}  // namespace shardmark
