// SPDX-License-Identifier: Apache-2.0
// How a program uses the memory of its slots. The arena of `pooled` mode is one allocation of the
// planned size, so the ledger cannot see what becomes of it. A watch marks the last element of each
// slot and the bytes behind it when the slot is acquired, and looks at both when it is released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// What a watch has seen.
struct SlotUse {
  std::int64_t to_the_end = 0;  // how often a slot was used to its last element, as the plan says
  std::string wrong;            // the first use that differs from the plan; empty: none
};

/// Watches slots in memory that the host reaches. All members are local. A slot whose content is
/// wrong is reported once, by its name.
class SlotWatch {
 public:
  /// `program` must outlive it. No slot may be alive.
  explicit SlotWatch(const Program& program);

  /// `memory` is what belongs to the slot: its bytes, and those up to the next possible slot.
  /// Overwrites the last element and what is behind it.
  void acquired(int slot, std::span<std::byte> memory);
  /// To be called for each event: what it writes counts as written from here on. Scratch does not
  /// count, since its users need not fill it, nor does what only the root of a reduction receives.
  void writes(const Event& event);
  /// To be called before a slot is released, when nothing that uses it is in flight. Slots that are
  /// not watched, such as empty ones, are ignored.
  void released(int slot);
  /// Ends the watch: looks at all slots that are still alive.
  SlotUse finish();

 private:
  void look_at(int slot);
  void report(int slot, const std::string& what);
  bool receives(const Event& event) const;

  const Program& program_;
  std::vector<std::span<std::byte>> memory_;  // by slot; empty: not watched
  std::vector<std::int64_t> written_;         // by slot: up to which element, since it was acquired
  std::map<const std::byte*, int> by_address_;  // slots that are alive
  SlotUse use_;
};

}  // namespace shardmark
