// SPDX-License-Identifier: Apache-2.0
// A position in an Hjson text, and what can be read there without knowledge of the context. Only
// hjson.cpp uses this header.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardmark {

/// A position in an Hjson text that moves forward only.
class HjsonCursor {
 public:
  explicit HjsonCursor(std::string_view text) : text_(text) {}

  static constexpr char end = '\0';  // a NUL in the text itself is refused before reading
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : end;
  }
  void advance(std::size_t chars = 1) { at_ += chars; }
  std::size_t position() const { return at_; }
  /// Returns the line of this position, counted from 1. It is cheap, because counting continues
  /// where it stopped.
  int count_line();

  /// Skips blanks and comments. Throws JsonSyntaxError for a comment that is not closed.
  void skip_blank();
  /// Returns the string in single or double quotes that starts here. Throws JsonSyntaxError.
  std::string quoted();
  /// Returns the string in triple quotes that starts here. The indentation of its quotes is removed
  /// from each line.
  std::string multiline();
  /// Returns a key without quotes, up to its colon.
  std::string bare_key();
  /// Returns the text from `from` to here, without surrounding blanks.
  std::string_view since(std::size_t from) const;

  /// Throws JsonSyntaxError with `reason` and this position.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  void skip_indent(std::size_t limit);
  unsigned hex4();
  std::string escaped();

  std::string_view text_;
  std::size_t at_ = 0, counted_ = 0;
  int line_ = 1;
};

}  // namespace shardmark
