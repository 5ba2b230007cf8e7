// SPDX-License-Identifier: Apache-2.0
// Transfers between the host's memory and files, one after another, on a thread of their own, so
// that they go on while the compute lane computes. That thread makes no MPI and no HDF5 call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <io/files/swap_file.hpp>
#include <miniapp/execute/lane_times.hpp>

namespace shardmark {

/// Where files of states are, and how they are read and written.
struct DiskOptions {
  std::string folder;                               // of optimizer states and gradients
  std::string param_folder;                         // of parameters
  std::int64_t step_bytes = std::int64_t{8} << 20;  // of one system call
  double timeout_s = 600;                           // of one transfer
};

/// Reads the options from the sections offload_optimizer, offload_param, aio and comm. The folders
/// are empty if no state lies in files.
DiskOptions disk_options(const Deck& deck);

/// Bytes that the disk lane's thread transferred to and from disks, as the kernel counts them.
struct DiskBytes {
  std::int64_t read = 0, written = 0;
};

/// The transfers of one rank between host memory and files. Nothing here is collective.
class DiskQueue {
 public:
  explicit DiskQueue(DiskOptions options);
  /// Waits for transfers that are in flight, unless one timed out.
  ~DiskQueue();
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  /// Queues a transfer between `memory` and the file's bytes from `at` on, and returns its number,
  /// from 1. Both must live until it is waited for.
  std::uint64_t start(Direction direction, const SwapFile& file, std::int64_t at,
                      std::int64_t bytes, std::byte* memory);
  /// Waits until transfer `number` is done, calling `progress` again and again, and returns when it
  /// was carried. Throws IoError if that or an earlier transfer failed, or if one takes longer than
  /// the timeout.
  Carried hold(std::uint64_t number, const std::function<void()>& progress);
  /// Forgets when each transfer was done; all of them must have been waited for.
  void finish();

  /// Records that the compute lane waited for a transfer.
  void waited(Direction d, std::int64_t ns) { times_[d].exposed_ns += ns; }

  /// Of the whole run.
  const LinkVolume& carried() const { return carried_; }
  /// Since `reset_times`.
  const LinkTimesByDirection& times() const { return times_; }
  void reset_times() { times_ = {}; }
  /// Whether every transfer bypassed the page cache.
  bool direct() const { return direct_; }
  /// Empty if the kernel does not count them, or if nothing was transferred.
  std::optional<DiskBytes> kernel_bytes() const;

 private:
  struct Shared;  // what this object and the thread share
  DiskOptions options_;
  std::shared_ptr<Shared> shared_;
  std::uint64_t last_ = 0, timed_ = 0;  // the last started; the last whose time is in times_
  LinkVolume carried_{};
  LinkTimesByDirection times_{};
  bool direct_ = true;
};

}  // namespace shardmark
