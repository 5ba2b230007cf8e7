// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <io/json/hjson_cursor.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_blank(char c) {
  return c != HjsonCursor::end && blanks.find(c) != std::string_view::npos;
}

std::string utf8(std::uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80u | ((code >> shift) & 0x3fu)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0u | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0u | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0u | (code >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace

int HjsonCursor::count_line() {
  const std::string_view passed = text_.substr(counted_, at_ - counted_);
  line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
  counted_ = at_;
  return line_;
}

void HjsonCursor::fail(const std::string& reason) const {
  throw JsonSyntaxError(at_place(text_, at_, "not JSON: " + reason));
}

std::string_view HjsonCursor::since(std::size_t from) const {
  std::string_view piece = text_.substr(from, at_ - from);
  const std::size_t first = piece.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return piece.substr(first, piece.find_last_not_of(blanks) - first + 1);
}

void HjsonCursor::skip_blank() {
  while (true) {
    while (is_blank(peek())) advance();
    if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
      while (peek() != '\n' && peek() != '\r' && peek() != end) advance();
    } else if (peek() == '/' && peek(1) == '*') {
      const std::size_t close = text_.find("*/", at_ + 2);
      if (close == std::string_view::npos) fail("this comment is never closed");
      at_ = close + 2;
    } else {
      return;
    }
  }
}

unsigned HjsonCursor::hex4() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i, advance()) {
    const char c = peek();
    const bool digit = c >= '0' && c <= '9', low = c >= 'a' && c <= 'f', up = c >= 'A' && c <= 'F';
    if (!digit && !low && !up) fail("\\u needs four hexadecimal digits");
    code = code * 16 + static_cast<unsigned>(digit ? c - '0' : low ? c - 'a' + 10 : c - 'A' + 10);
  }
  return code;
}

// Parses what follows a backslash.
std::string HjsonCursor::escaped() {
  constexpr std::string_view names = "\"'\\/bfnrt", meant = "\"'\\/\b\f\n\r\t";
  const char c = peek();
  if (c != 'u') {
    const std::size_t which = c == end ? std::string_view::npos : names.find(c);
    if (which == std::string_view::npos) fail("no such escape sequence");
    advance();
    return {meant[which]};
  }
  advance();
  const unsigned first = hex4();
  if (first < 0xd800 || first > 0xdfff) return utf8(first);
  if (first > 0xdbff || peek() != '\\' || peek(1) != 'u') fail("half of a surrogate pair");
  advance(2);
  const unsigned second = hex4();
  if (second < 0xdc00 || second > 0xdfff) fail("half of a surrogate pair");
  return utf8(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
}

std::string HjsonCursor::quoted() {
  const char quote = peek();
  advance();
  std::string result;
  while (peek() != quote) {
    if (peek() == end) fail("this string is never closed");
    if (static_cast<unsigned char>(peek()) < ' ')
      fail("a line break or tab in a string: escape it");
    if (peek() == '\\') {
      advance();
      result += escaped();
    } else {
      result += peek();
      advance();
    }
  }
  advance();
  return result;
}

void HjsonCursor::skip_indent(std::size_t limit) {
  for (; limit > 0 && is_blank(peek()) && peek() != '\n'; --limit) advance();
}

std::string HjsonCursor::multiline() {
  constexpr std::string_view quotes = "'''";
  const std::size_t last = text_.substr(0, at_).rfind('\n');
  const std::size_t indent = at_ - (last == std::string_view::npos ? 0 : last + 1);
  const std::size_t close = text_.find(quotes, at_ + quotes.size());
  if (close == std::string_view::npos) fail("this string is never closed");
  advance(quotes.size());
  skip_indent(text_.size());
  if (peek() == '\n') {
    advance();
    skip_indent(indent);
  }
  std::string result;
  while (at_ < close) {
    const char c = peek();
    advance();
    if (c != '\r') result += c;
    if (c == '\n') skip_indent(indent);
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  advance(quotes.size());
  return result;
}

std::string HjsonCursor::bare_key() {
  const std::size_t from = at_;
  while (peek() != ':') {
    const char c = peek();
    if (c == end || std::string_view("{}[],").find(c) != std::string_view::npos)
      fail("a key and a colon are expected here");
    if (is_blank(c)) {
      while (is_blank(peek())) advance();
      if (peek() != ':') fail("a key with blanks needs quotes");
      break;
    }
    advance();
  }
  const std::string_view key = since(from);
  if (key.empty()) fail("a key is expected before the colon");
  return std::string(key.substr(0, key.find_first_of(blanks)));
}

}  // namespace shardmark
