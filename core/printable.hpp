// SPDX-License-Identifier: Apache-2.0
// Prepares names, paths and values that people gave for being printed as part of a line. A line
// break in a deck's name must not begin a line of the report, and no escape sequence may reach a
// terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardmark {

/// Returns `text` on one line: control characters, marks that change the direction of writing, and
/// bytes that are not UTF-8 are replaced by escapes like `\n`, `\x1b` and `\u202e`.
inline std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  const auto escape = [&](std::string_view kind, unsigned code, int width) {
    result += kind;
    for (int shift = 4 * (width - 1); shift >= 0; shift -= 4)
      result += digits[(code >> shift) & 15];
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) {
      if (first == '\n')
        result += "\\n";
      else if (first == '\r')
        result += "\\r";
      else if (first == '\t')
        result += "\\t";
      else if (first < ' ' || first == 0x7f)
        escape("\\x", first, 2);
      else
        result += text[at];
      ++at;
      continue;
    }
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    bool good = first >= 0xc2 && first <= 0xf4 && at + length <= text.size();
    unsigned code = first & (0xffu >> (length + 1));
    for (std::size_t i = 1; good && i < length; ++i) {
      good = (byte(i) & 0xc0) == 0x80;
      code = (code << 6) | (byte(i) & 0x3fu);
    }
    // Longer than need be, half of a pair, or beyond Unicode.
    good = good && !(length == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) &&
           !(length == 4 && (code < 0x10000 || code > 0x10ffff));
    if (!good) {
      escape("\\x", first, 2);
      ++at;
      continue;
    }
    const bool control = code < 0xa0;
    const bool line_end = code == 0x2028 || code == 0x2029;
    const bool direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    if (control || line_end || direction)
      escape("\\u", code, 4);
    else
      result += text.substr(at, length);
    at += length;
  }
  return result;
}

/// Like printable(text), but returns at most `max_chars` characters. A text that is cut ends in
/// "...".
inline std::string printable(std::string_view text, std::size_t max_chars) {
  std::string line = printable(text);
  std::size_t characters = 0, cut = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if ((static_cast<unsigned char>(line[at]) & 0xc0) == 0x80) continue;  // within a character
    if (++characters == max_chars - 2) cut = at;
  }
  if (characters > max_chars) line.replace(cut, std::string::npos, "...");
  return line;
}

}  // namespace shardmark
