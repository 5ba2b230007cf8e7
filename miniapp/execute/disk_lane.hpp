// SPDX-License-Identifier: Apache-2.0
// The plan's disk lane: transfers between the host's memory and files, one after another, on a
// thread of its own, so that they go on while the compute lane computes. Transfers only: that
// thread makes no MPI and no HDF5 call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <core/plan/interpret/copy_volume.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/disk_options.hpp>
#include <miniapp/execute/link_times.hpp>

namespace shardmark {

class DiskLane {
 public:
  explicit DiskLane(DiskOptions options);
  /// Waits for what is open, unless a transfer timed out.
  ~DiskLane();
  DiskLane(const DiskLane&) = delete;
  DiskLane& operator=(const DiskLane&) = delete;

  /// Queues a transfer between `memory` and the file's bytes from `at` on; both must live until it
  /// is waited for. Numbers count from 1.
  std::int64_t start(Direction direction, const SwapFile& file, std::int64_t at, std::int64_t bytes,
                     std::byte* memory);
  /// Until transfer `number` is done; `meanwhile` is called by and by. Throws IoError of any
  /// transfer until then, or when one takes longer than the timeout.
  Carried wait(std::int64_t number, const std::function<void()>& meanwhile);
  /// All that was started has been waited for: forgets when each was done.
  void settle();

  /// The compute lane waited for a transfer.
  void waited(Direction d, std::int64_t ns) {
    times_[static_cast<std::size_t>(d)].exposed_ns += ns;
  }

  /// Of the whole run.
  const LinkVolume& carried() const { return carried_; }
  /// Since `reset_times`.
  const LinkTimesByDirection& times() const { return times_; }
  void reset_times() { times_ = {}; }
  /// Whether every transfer reached a disk itself, past the page cache.
  bool direct() const { return direct_; }
  /// Empty where the kernel does not tell, or nothing was moved.
  std::optional<DiskBytes> kernel_bytes() const;

 private:
  struct Shared;  // with the thread
  DiskOptions options_;
  std::shared_ptr<Shared> shared_;
  std::int64_t last_ = 0, timed_ = 0;  // numbers: started; whose time is in times_
  LinkVolume carried_{};
  LinkTimesByDirection times_{};
  bool direct_ = true;
};

}  // namespace shardmark
