// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <io/json/hjson.hpp>
#include <io/json/hjson_cursor.hpp>

namespace shardmark {
namespace {

class Parser {
 public:
  Parser(std::string_view text, nlohmann::json_sax<Json>& sink, int& line)
      : cursor_(text), sink_(sink), line_(line) {}

  void document() {
    cursor_.skip_blank();
    if (cursor_.peek() == '{' || cursor_.peek() == '[')
      value();
    else
      object(HjsonCursor::end);
    cursor_.skip_blank();
    if (cursor_.peek() != HjsonCursor::end) cursor_.fail("something follows the last value");
  }

 private:
  // Parses an object after its opening brace. `close` is a brace, or the end of the text for a root
  // object without braces.
  void object(char close) {
    tell([&] { return sink_.start_object(std::size_t(-1)); });
    cursor_.skip_blank();
    while (cursor_.peek() != close) {
      std::string key = quote_here() ? cursor_.quoted() : cursor_.bare_key();
      tell([&] { return sink_.key(key); });
      cursor_.skip_blank();
      if (cursor_.peek() != ':') cursor_.fail("a colon must follow the key");
      cursor_.advance();
      cursor_.skip_blank();
      value();
      separator();
    }
    if (close != HjsonCursor::end) cursor_.advance();
    tell([&] { return sink_.end_object(); });
  }

  void array() {
    tell([&] { return sink_.start_array(std::size_t(-1)); });
    cursor_.skip_blank();
    while (cursor_.peek() != ']') {
      value();
      separator();
    }
    cursor_.advance();
    tell([&] { return sink_.end_array(); });
  }

  void separator() {
    cursor_.skip_blank();
    if (cursor_.peek() != ',') return;
    cursor_.advance();
    cursor_.skip_blank();
  }

  bool quote_here() const { return cursor_.peek() == '"' || cursor_.peek() == '\''; }

  void value() {
    const char c = cursor_.peek();
    if (c == '{' || c == '[') {
      cursor_.advance();
      c == '{' ? object('}') : array();
    } else if (quote_here()) {
      const bool triple = c == '\'' && cursor_.peek(1) == '\'' && cursor_.peek(2) == '\'';
      text(triple ? cursor_.multiline() : cursor_.quoted());
    } else {
      bare();
    }
  }

  void text(std::string v) {
    tell([&] { return sink_.string(v); });
  }

  // Parses a value without quotes. It is a word or a number if that ends at a comma, a bracket, a
  // comment or the end of the line; otherwise it is a string up to the end of the line, commas and
  // brackets included.
  void bare() {
    if (cursor_.peek() == HjsonCursor::end ||
        std::string_view("{}[],:").find(cursor_.peek()) != std::string_view::npos)
      cursor_.fail("a value is expected here");
    const std::size_t from = cursor_.position();
    while (true) {
      const char c = cursor_.peek();
      const bool line_ends = c == '\r' || c == '\n' || c == HjsonCursor::end;
      const bool comment =
          c == '#' || (c == '/' && (cursor_.peek(1) == '/' || cursor_.peek(1) == '*'));
      if (line_ends || comment || c == ',' || c == '}' || c == ']')
        if (word(cursor_.since(from)) || number(cursor_.since(from))) return;
      if (line_ends) return text(std::string(cursor_.since(from)));
      cursor_.advance();
    }
  }

  bool word(std::string_view s) {
    if (s == "null") tell([&] { return sink_.null(); });
    if (s == "true" || s == "false") tell([&] { return sink_.boolean(s == "true"); });
    return s == "null" || s == "true" || s == "false";
  }

  static std::size_t digits(std::string_view s, std::size_t from) {
    const std::size_t to = s.find_first_not_of("0123456789", from);
    return (to == std::string_view::npos ? s.size() : to) - std::min(from, s.size());
  }

  // Returns whether `s` is a number as JSON writes it.
  bool number(std::string_view s) {
    std::size_t at = s.starts_with('-') ? 1 : 0;
    const std::size_t whole = digits(s, at);
    if (whole == 0 || (whole > 1 && s[at] == '0')) return false;
    at += whole;
    const std::size_t integer_end = at;
    if (at < s.size() && s[at] == '.') {
      const std::size_t fraction = digits(s, at + 1);
      if (fraction == 0) return false;
      at += 1 + fraction;
    }
    if (at < s.size() && (s[at] == 'e' || s[at] == 'E')) {
      at += at + 1 < s.size() && (s[at + 1] == '+' || s[at + 1] == '-') ? 2 : 1;
      const std::size_t exponent = digits(s, at);
      if (exponent == 0) return false;
      at += exponent;
    }
    if (at != s.size()) return false;
    if (integer_end == s.size() && integer(s)) return true;
    real(s);
    return true;
  }

  bool integer(std::string_view s) {
    std::int64_t v = 0;
    std::uint64_t u = 0;
    const char* end = s.data() + s.size();
    if (std::from_chars(s.data(), end, v).ec == std::errc{})
      tell([&] {
        return v < 0 ? sink_.number_integer(v) : sink_.number_unsigned(std::uint64_t(v));
      });
    else if (s.front() != '-' && std::from_chars(s.data(), end, u).ec == std::errc{})
      tell([&] { return sink_.number_unsigned(u); });
    else
      return false;
    return true;
  }

  void real(std::string_view s) {
    constexpr double whole_below = 1e10;
    const double v = std::strtod(std::string(s).c_str(), nullptr);
    if (std::isinf(v)) cursor_.fail("this number is too large");
    if (std::abs(v) < whole_below && v == std::trunc(v))
      tell([&] { return sink_.number_integer(static_cast<std::int64_t>(v)); });
    else
      tell([&] { return sink_.number_float(v, std::string(s)); });
  }

  template<class Event>
  void tell(Event event) {
    line_ = cursor_.count_line();
    if (!event()) cursor_.fail("refused");
  }

  HjsonCursor cursor_;
  nlohmann::json_sax<Json>& sink_;
  int& line_;
};

}  // namespace

void parse_hjson(std::string_view text, nlohmann::json_sax<Json>& sink, int& line) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  HjsonCursor cursor(text);
  try {
    (void)Json(std::string(text)).dump();
  } catch (const Json::type_error&) {
    cursor.fail("the file is not UTF-8");
  }
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    cursor.advance(nul);
    cursor.fail("a NUL byte");
  }
  Parser(text, sink, line).document();
}

}  // namespace shardmark
