// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <io/keys/key.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {
namespace {

// 500000000 is 5e8.
std::string short_number(std::int64_t value) {
  constexpr std::int64_t shortest = 100'000;
  int zeros = 0;
  std::int64_t digits = value;
  for (; digits >= 10 && digits % 10 == 0; digits /= 10) ++zeros;
  return value >= shortest && digits < 10 ? fmt::format("{}e{}", digits, zeros)
                                          : std::to_string(value);
}

}  // namespace

Json Key::default_value() const {
  static const Deck untouched;
  if (!fallback.empty()) return Json::parse(fallback);
  return member.get != nullptr ? member.get(untouched) : Json();
}

std::string Key::default_text() const {
  if (needed) return "required";
  if (!absent.empty()) return std::string(absent);
  const Json value = default_value();
  if (value.is_null()) return "none";
  if (value == std::numeric_limits<std::int64_t>::max()) return "no limit";
  if (value.is_number_integer()) return short_number(value.get<std::int64_t>());
  if (value.is_number()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Key* find_key(std::span<const Key> keys, std::string_view spelling) {
  for (const Key& key : keys)
    if (key.name == spelling || (!key.alias.empty() && key.alias == spelling)) return &key;
  return nullptr;
}

std::vector<std::string> spellings(std::span<const Key> keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    if (key.effect == KeyEffect::removed) continue;
    names.emplace_back(key.name);
    if (!key.alias.empty()) names.emplace_back(key.alias);
  }
  return names;
}

std::vector<std::string> paths_named(std::string_view name, std::span<const Section> sections,
                                     std::string_view root) {
  std::vector<std::string> paths;
  const auto add = [&](std::string_view path) {
    const std::size_t dot = path.rfind('.');
    if (path.substr(dot == std::string_view::npos ? 0 : dot + 1) == name &&
        std::find(paths.begin(), paths.end(), path) == paths.end())
      paths.emplace_back(path);
  };
  for (const Section& section : sections) {
    const std::string path = join_key(root, section.path);
    if (!section.path.empty()) add(path);
    if (find_key(section.keys, name) != nullptr) add(join_key(path, name));
  }
  return paths;
}

}  // namespace shardmark
