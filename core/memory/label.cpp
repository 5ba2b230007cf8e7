// SPDX-License-Identifier: Apache-2.0
#include <core/memory/label.hpp>

namespace shardmark {
namespace {
constexpr std::string_view prefix = "shardmark";
constexpr std::string_view separator = "::";
constexpr std::string_view arena = "arena";

/// Removes the text before the next separator from `rest` and returns it; empty without a
/// separator.
std::optional<std::string_view> take_part(std::string_view& rest) {
  const auto end = rest.find(separator);
  if (end == std::string_view::npos) return std::nullopt;
  const auto part = rest.substr(0, end);
  rest.remove_prefix(end + separator.size());
  return part;
}

template<class E>
std::optional<E> value_of(std::optional<std::string_view> text) {
  for (const E value : all_values<E>)
    if (text && to_string(value) == *text) return value;
  return std::nullopt;
}
}  // namespace

std::string memory_label(Tier tier, Category category, std::string_view name) {
  std::string label;
  for (const auto part : {prefix, to_string(tier), to_string(category)})
    label.append(part).append(separator);
  return label.append(name);
}

std::string arena_label(Tier tier) {
  return std::string(prefix)
      .append(separator)
      .append(to_string(tier))
      .append(separator)
      .append(arena);
}

std::optional<MemoryLabel> parse_memory_label(std::string_view label) {
  if (take_part(label) != prefix) return std::nullopt;
  const auto tier = value_of<Tier>(take_part(label));
  if (!tier) return std::nullopt;
  if (label == arena) return MemoryLabel{*tier, std::nullopt, std::string(arena)};
  const auto category = value_of<Category>(take_part(label));
  if (!category) return std::nullopt;
  return MemoryLabel{*tier, *category, std::string(label)};
}

}  // namespace shardmark
