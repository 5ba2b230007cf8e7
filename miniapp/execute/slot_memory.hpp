// SPDX-License-Identifier: Apache-2.0
// Where slots are while they are alive. `strict`: each acquire allocates, each release frees, so
// the ledger can be held against the plan event by event. `pooled`: all places are fixed and
// allocated once, at the start; acquire and release only say that a slot is there. A slot of the
// tier nvme is a file either way.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include <core/memory/buffer.hpp>
#include <core/memory/ledger.hpp>
#include <core/plan/interpret/arena.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/disk_options.hpp>

namespace shardmark {

/// Owns the memory and the files of all slots of one program.
class SlotMemory {
 public:
  /// Pooled: allocates the arenas. Both must outlive it; `ledger` may be null. Files are made where
  /// `disk` says. Throws MemoryError.
  SlotMemory(const Program& program, Ledger* ledger, DiskOptions disk = {});

  /// Its content is undefined. Throws MemoryError (strict), IoError (files).
  void acquire(int slot);
  void release(int slot);
  /// Keeps `slot`'s memory allocated beyond its release: a fault made on purpose.
  void leak(int slot);

  bool alive(int slot) const { return data_[slot] != nullptr; }
  /// Bytes that are there for slots now, by tier. Strict: what the ledger has on its books. Pooled,
  /// where the ledger sees nothing but the arenas, or without a ledger: slots that are alive, and
  /// leaked ones.
  std::array<std::int64_t, tier_count> held_bytes() const;
  /// First byte of a slot that is alive. A file is mapped, until `unmap_files`.
  std::byte* data(int slot) const {
    return is_file(slot) ? files_[static_cast<std::size_t>(slot)]->map() : data_[slot];
  }
  const SwapFile& file(int slot) const { return *files_[static_cast<std::size_t>(slot)]; }
  bool is_file(int slot) const { return program_.slots[slot].tier == Tier::nvme; }
  void unmap_files() const;
  /// Sizes of files as the file system has them: what the ledger is for memory.
  const TierLedger& files() const { return file_sizes_; }

 private:
  void make_file(int slot);
  void drop_file(int slot);

  const Program& program_;
  Ledger* ledger_;
  ArenaLayout layout_;                                    // pooled
  std::array<std::optional<Buffer>, tier_count> arenas_;  // pooled
  std::vector<std::optional<Buffer>> buffers_;            // strict, by slot
  std::vector<std::byte*> data_;                          // by slot; null: not alive
  std::vector<Buffer> leaked_;
  DiskOptions disk_;
  std::vector<std::optional<SwapFile>> files_;  // by slot; empty where no slot is a file
  TierLedger file_sizes_;
  std::array<std::int64_t, tier_count> held_{};  // of slots alive and leaked
};

}  // namespace shardmark
