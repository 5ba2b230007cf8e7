// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <miniapp/charts/text.hpp>

namespace shardmark::html {

namespace {

// The number of bytes of the UTF-8 character at the start of `text`; 0 if there is none that a page
// may contain.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                      ? 1
                             : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                             : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                             : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                                 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (length == 1) return 1;
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
  const bool no_character = text.starts_with("\xef\xbf\xbe") || text.starts_with("\xef\xbf\xbf");
  return overlong || surrogate || too_large || no_character ? 0 : length;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    if (length != 1) {
      safe += length == 0 ? std::string_view("\ufffd") : text.substr(at, length);
      at += length == 0 ? 1 : length;
      continue;
    }
    const char c = text[at++];
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      case '\n': safe += c; break;
      default: safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return safe;
}

std::string breakable(std::string_view text) {
  std::string markup;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("/,_;:=", begin), text.size() - 1) + 1;
    markup += escape(text.substr(begin, end - begin)) + "<wbr/>";
    begin = end;
  }
  return markup;
}

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) text += "\u202f";
    text += digits[i];
  }
  return text;
}

std::string decimal(double number, int decimals) {
  return std::isnan(number) ? "nan" : fmt::format("{:.{}f}", number, decimals);
}

}  // namespace shardmark::html
