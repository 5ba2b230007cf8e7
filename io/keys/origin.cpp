// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {

bool within(std::string_view key, std::string_view parent) {
  return key.starts_with(parent) && (key.size() == parent.size() || key[parent.size()] == '.');
}

std::string Origin::folder() const {
  return std::filesystem::path(deck_file_).parent_path().string();
}

std::string Origin::resolve(const std::string& path) const {
  return (std::filesystem::path(folder()) / path).string();
}

std::string Origin::resolve_output(const std::string& path) const {
  const std::filesystem::path given(path);
  if (!shipped_ || given.is_absolute()) return resolve(path);
  std::filesystem::path below;
  for (const std::filesystem::path& part : given)
    if (part != "..") below /= part;
  return below.string();
}

const std::string& Origin::file_of(std::string_view section) const {
  const auto file = files_.find(section);
  return file != files_.end() && !file->second.empty() ? file->second : deck_file_;
}

std::string Origin::place(std::string_view key) const {
  for (const auto& [name, place] : places_)
    if (within(key, name)) return place + brief_key(key.substr(name.size()));
  const std::string section(key.substr(0, key.find('.')));
  std::string result = file_of(section);
  const bool from_file = result != deck_file_;
  for (const std::string& set : overridden_) {
    if (from_file && set == section) continue;  // this --set gave the file, not the value
    if (within(key, set) || within(set, key)) {
      result += " (--set)";
      break;
    }
  }
  return key.empty() ? result : fmt::format("{}: {}", result, brief_key(key));
}

void Origin::refuse(std::string_view key, const Json& value, std::string_view what) const {
  throw DeckError(fmt::format("{} = {}: {}", place(key), brief(value), what));
}

void Origin::missing(std::string_view key, std::string_view what) const {
  throw DeckError(fmt::format("{}: missing: {}", place(key), what));
}

void Origin::not_modelled(std::string_view key, const Json& value, std::string_view remedy) const {
  refuse(key, value, fmt::format("not modelled yet: {}", remedy));
}

void Origin::note(FindingKind kind, std::string_view key, std::string text) {
  findings_.push_back({kind, std::string(key), std::move(text)});
}

std::string join_key(std::string_view parent, std::string_view name) {
  if (parent.empty()) return std::string(name);
  if (name.empty()) return std::string(parent);
  return fmt::format("{}.{}", parent, name);
}

std::pair<std::string_view, std::string_view> split_key(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {{}, path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0, end = 0; end != std::string_view::npos; at = end + 1) {
    end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
  }
  return parts;
}

}  // namespace shardmark
