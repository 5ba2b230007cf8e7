// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <io/keys/key.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {

Json Key::default_value() const {
  static const Deck untouched;
  if (!fallback.empty()) return Json::parse(fallback);
  return member.get != nullptr ? member.get(untouched) : Json();
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
    if (split_key(path).second == name &&
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
