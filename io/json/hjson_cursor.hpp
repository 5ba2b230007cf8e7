// SPDX-License-Identifier: Apache-2.0
// A place in an Hjson text: what can be read there without knowing what surrounds it. Inside io/
// only, for hjson.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardmark {

/// A position in an Hjson text that moves forward only.
class HjsonCursor {
 public:
  explicit HjsonCursor(std::string_view text) : text_(text) {}

  static constexpr char end = '\0';  // a NUL in the text itself is refused before it is read
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : end;
  }
  void advance(std::size_t chars = 1) { at_ += chars; }
  std::size_t position() const { return at_; }
  /// The line of this place, from 1; cheap, as it goes on from where it last counted.
  int count_line();

  /// Past blanks and comments. Throws JsonSyntaxError: an open comment.
  void skip_blank();
  /// The string in single or double quotes that starts here. Throws JsonSyntaxError.
  std::string quoted();
  /// The string in triple quotes that starts here: its indentation is that of its quotes.
  std::string multiline();
  /// A key without quotes, up to its colon.
  std::string bare_key();
  /// Text from `from` to here, without blanks around it.
  std::string_view since(std::size_t from) const;

  /// Throws JsonSyntaxError: `reason` at this place.
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
