// SPDX-License-Identifier: Apache-2.0
#include <io/json_lenient.hpp>

namespace shardmark {
namespace {

// One past the closing quote of the string that starts at `i`; the text's end if it never closes.
std::size_t skip_string(std::string_view text, std::size_t i) {
  for (++i; i < text.size() && text[i] != '"'; ++i)
    if (text[i] == '\\') ++i;
  return i < text.size() ? i + 1 : text.size();
}

// One past the comment that starts at `i`; `i` itself if none does. An open comment is left as it
// is, for the parser to complain about.
std::size_t skip_comment(std::string_view text, std::size_t i) {
  const std::string_view rest = text.substr(i);
  if (rest.starts_with("#") || rest.starts_with("//")) {
    const std::size_t end = text.find('\n', i);
    return end == std::string_view::npos ? text.size() : end;
  }
  if (rest.starts_with("/*")) {
    const std::size_t end = text.find("*/", i + 2);
    return end == std::string_view::npos ? i : end + 2;
  }
  return i;
}

}  // namespace

std::string blank_lenient(std::string_view text) {
  std::string out(text);
  constexpr std::size_t none = std::string::npos;
  std::size_t comma = none;  // the last significant character, if it is a comma after a value
  bool after_value = false;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (const std::size_t end = skip_comment(text, i); end != i) {
      for (; i < end; ++i)
        if (text[i] != '\n') out[i] = ' ';
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      ++i;
    } else {
      if ((c == '}' || c == ']') && comma != none) out[comma] = ' ';
      comma = (c == ',' && after_value) ? i : none;
      after_value = c != ',' && c != '{' && c != '[' && c != ':';
      i = c == '"' ? skip_string(text, i) : i + 1;
    }
  }
  return out;
}

}  // namespace shardmark
