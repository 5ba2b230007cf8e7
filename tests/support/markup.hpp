// SPDX-License-Identifier: Apache-2.0
// Reads a page as XML, as far as tests need it: whether its tags are balanced, quoted and escaped,
// and the text of the cells of its tables.
#pragma once

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardmark::test {

/// Returns what is wrong with a text between tags or in an attribute; empty if nothing is.
inline std::string bad_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view from = text.substr(i);
    const auto begins = [&](std::string_view entity) { return from.starts_with(entity); };
    const bool entity =
        begins("&amp;") || begins("&lt;") || begins("&gt;") || begins("&quot;") || begins("&#39;");
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '<' || (c < 0x20 && c != '\n') || (c == '&' && !entity))
      return "not escaped: " + std::string(from.substr(0, 20));
  }
  return {};
}

/// Returns what is wrong with a tag without its brackets, `name key="value" key="value"`.
inline std::string bad_tag(std::string_view tag) {
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-';
  };
  const auto name_length = [&] {
    const auto end = std::find_if_not(tag.begin(), tag.end(), is_name);
    return static_cast<std::size_t>(end - tag.begin());
  };
  const std::string whole(tag.substr(0, 60));
  if (name_length() == 0) return "no tag: <" + whole;
  tag.remove_prefix(name_length());
  while (!tag.empty()) {
    if (tag.front() != ' ') return "no space before an attribute: <" + whole;
    tag.remove_prefix(1);
    const std::size_t name = name_length();
    if (name == 0 || !tag.substr(name).starts_with("=\"")) return "no attribute: <" + whole;
    tag.remove_prefix(name + 2);
    const std::size_t quote = tag.find('"');
    if (quote == std::string_view::npos) return "no closing quote: <" + whole;
    if (const std::string bad = bad_text(tag.substr(0, quote)); !bad.empty()) return bad;
    tag.remove_prefix(quote + 1);
  }
  return {};
}

/// Returns the first thing that prevents `page` from being XML; empty if nothing does. Comments,
/// CDATA and processing instructions are not supported, because the pages have none.
inline std::string malformed(std::string_view page) {
  constexpr std::string_view doctype = "<!DOCTYPE html>";
  if (!page.starts_with(doctype)) return "no DOCTYPE";
  page.remove_prefix(doctype.size());
  std::vector<std::string> open;
  for (std::size_t at; (at = page.find('<')) != std::string_view::npos;) {
    if (const std::string bad = bad_text(page.substr(0, at)); !bad.empty()) return bad;
    // Inside an attribute the character would be an entity.
    const std::size_t end = page.find('>', at);
    if (end == std::string_view::npos) return "never ends: " + std::string(page.substr(at, 60));
    std::string_view tag = page.substr(at + 1, end - at - 1);
    page.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1))
        return "closes nothing: " + std::string(tag);
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.remove_suffix(1);
    if (const std::string bad = bad_tag(tag); !bad.empty()) return bad;
    if (!closed) open.emplace_back(tag.substr(0, tag.find(' ')));
  }
  if (const std::string bad = bad_text(page); !bad.empty()) return bad;
  return open.empty() ? "" : "never closed: " + open.back();
}

/// Returns the text without its tags, with entities replaced by their characters and without the
/// spaces between digits.
inline std::string plain(std::string_view markup) {
  constexpr std::pair<std::string_view, std::string_view> meant[] = {
      {"\u202f", ""},   {"&lt;", "<"},  {"&gt;", ">"},
      {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  std::string text;
  while (!markup.empty()) {
    if (markup.front() == '<') {
      markup.remove_prefix(std::min(markup.find('>'), markup.size() - 1) + 1);
      continue;
    }
    const auto* m = std::find_if(std::begin(meant), std::end(meant),
                                 [&](const auto& e) { return markup.starts_with(e.first); });
    const bool is_one = m != std::end(meant);
    text += is_one ? m->second : markup.substr(0, 1);
    markup.remove_prefix(is_one ? m->first.size() : 1);
  }
  return text;
}

/// Returns all rows of all tables of a page, cell by cell, in plain text.
inline std::vector<std::vector<std::string>> rows_of_tables(std::string_view page) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t at; (at = page.find("<tr>")) != std::string_view::npos;) {
    std::string_view row = page.substr(at, page.find("</tr>", at) - at);
    page.remove_prefix(at + row.size());
    rows.emplace_back();
    row.remove_prefix(4);
    while (!row.empty()) {
      const std::size_t end = std::min(row.find("</t"), row.size());
      rows.back().push_back(plain(row.substr(0, end)));
      row.remove_prefix(std::min(end + 5, row.size()));  // "</td>"
    }
  }
  return rows;
}

}  // namespace shardmark::test
