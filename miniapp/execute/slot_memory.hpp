// SPDX-License-Identifier: Apache-2.0
// The memory of slots while they are alive. In `strict` mode each acquire allocates and each
// release frees, so that the ledger can be compared with the plan event by event. In `pooled` mode
// every slot has a fixed place in an arena that is allocated once; acquire and release only mark
// the slot. In both modes a slot of the tier nvme is a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <core/memory/buffer.hpp>
#include <core/memory/ledger.hpp>
#include <core/plan/deck/types.hpp>
#include <core/plan/interpret/arena.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/disk_queue.hpp>

namespace shardmark {

/// Owns the memory and the files of all slots of one program.
class SlotMemory {
 public:
  /// Allocates the arenas in `pooled` mode. `program` and `ledger` must outlive it; `ledger` may be
  /// null. Files are created in the folders of `disk`. Throws MemoryError.
  SlotMemory(const Program& program, Ledger* ledger, DiskOptions disk = {});

  /// The content of the slot is undefined. Throws MemoryError (strict), IoError (files).
  void acquire(int slot);
  void release(int slot);
  /// Releases `slot`, but keeps its memory allocated: a fault on purpose.
  void leak(int slot);

  bool alive(int slot) const { return data_[slot] != nullptr; }
  /// The bytes that slots occupy now, by tier. In `strict` mode the ledger counts them. In `pooled`
  /// mode, where the ledger sees only the arenas, and without a ledger, these are the slots that
  /// are alive or leaked.
  EnumArray<Tier, std::int64_t> held_bytes() const;
  /// The first byte of a slot that is alive. A file is mapped until `unmap_files`.
  std::byte* data(int slot) const { return is_file(slot) ? files_[slot]->map() : data_[slot]; }
  /// The memory that belongs to a slot that is alive and no file. In `pooled` mode it contains the
  /// bytes up to the next place where another slot may begin.
  std::span<std::byte> room(int slot) const;
  const SwapFile& file(int slot) const { return *files_[slot]; }
  bool is_file(int slot) const { return program_.slots[slot].tier == Tier::nvme; }
  void unmap_files() const;
  /// The sizes of files as the file system reports them; the counterpart of the ledger.
  const TierLedger& files() const { return file_sizes_; }

 private:
  void make_file(int slot);
  void drop_file(int slot);

  const Program& program_;
  Ledger* ledger_;
  ArenaLayout layout_;                             // pooled
  EnumArray<Tier, std::optional<Buffer>> arenas_;  // pooled
  EnumArray<Tier, std::byte*> first_place_{};      // in them
  std::vector<std::optional<Buffer>> buffers_;     // strict, by slot
  std::vector<std::byte*> data_;                   // by slot; null: not alive
  std::vector<Buffer> leaked_;
  DiskOptions disk_;
  std::vector<std::optional<SwapFile>> files_;  // by slot; empty if the slot is not a file
  TierLedger file_sizes_;
  EnumArray<Tier, std::int64_t> held_{};  // of slots alive and leaked
};

/// Advises the system to use huge pages in `bytes` bytes from `data`: touching 256 MiB for the
/// first time takes a third of the time, and addresses are translated faster. Local. Nothing
/// changes if the system ignores the advice, or if the memory is a device's.
void prefer_huge_pages(Tier tier, std::byte* data, std::int64_t bytes);

}  // namespace shardmark
