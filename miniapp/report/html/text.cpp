// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>

#include <miniapp/report/html/style.hpp>
#include <miniapp/report/html/text.hpp>

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

std::string to_html(const Table& table) {
  std::string text = "<div class=\"wide\"><table>\n";
  if (!table.caption.empty()) text += fmt::format("<caption>{}</caption>\n", table.caption);
  const auto style_of = [&](std::size_t column, std::size_t columns) {
    if (column >= table.text_columns && column + table.note_columns < columns)
      return " class=\"figure\"";
    return column + 1 == columns ? " class=\"note\"" : "";
  };
  const auto cells = [&](const char* tag, const std::vector<std::string>& row) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("<{}{}>{}</{}>", tag, style_of(i, row.size()), row[i], tag);
    text += "</tr>\n";
  };
  text += "<thead>";
  cells("th", table.head);
  text += "</thead><tbody>\n";
  for (const auto& row : table.rows) cells("td", row);
  return text + "</tbody></table></div>\n";
}

std::string document(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{}</title>\n<style>{}</style></head><body>\n{}</body></html>\n",
      escape(title), style, body);
}

}  // namespace shardmark::html
