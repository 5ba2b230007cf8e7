// SPDX-License-Identifier: Apache-2.0
// The labels of all memory of size: `shardmark::<tier>::<category>::<name>`. They are what the
// ledger knows an allocation by, and what any other Kokkos tool shows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// A label taken apart.
struct MemoryLabel {
  Tier tier = Tier::device;
  std::optional<Category> category = {};  // empty: a tier's arena, which holds all of them
  std::string name;
  bool operator==(const MemoryLabel&) const = default;
};

/// `shardmark::device::gathered::gathered.block0`.
std::string memory_label(Tier tier, Category category, std::string_view name);

/// `shardmark::device::arena`.
std::string arena_label(Tier tier);

/// The parts of a label of ours; empty for any other text. The name is all that follows the
/// category,
/// `::` included, so that parsing undoes `memory_label` for every name.
std::optional<MemoryLabel> parse_memory_label(std::string_view label);

}  // namespace shardmark
