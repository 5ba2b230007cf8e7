// SPDX-License-Identifier: Apache-2.0
// The labels of all large allocations: `shardmark::<tier>::<category>::<name>`. The ledger
// recognises an allocation by its label, and other Kokkos tools show the same label.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// The parts of a label.
struct MemoryLabel {
  Tier tier = Tier::device;
  std::optional<Category> category = {};  // empty for the arena of a tier, which holds all of them
  std::string name;
  bool operator==(const MemoryLabel&) const = default;
};

/// For example `shardmark::device::gathered::gathered.block0`.
std::string memory_label(Tier tier, Category category, std::string_view name);

/// For example `shardmark::device::arena`.
std::string arena_label(Tier tier);

/// Splits a label into its parts; empty for text that is not one of our labels. The name is
/// everything after the category, `::` included, so parsing inverts `memory_label` for every name.
std::optional<MemoryLabel> parse_memory_label(std::string_view label);

}  // namespace shardmark
