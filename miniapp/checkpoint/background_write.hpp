// SPDX-License-Identifier: Apache-2.0
// The part of an asynchronous checkpoint that goes on beside training: one thread a rank writes
// this rank's file; that of rank 0 then waits for all and publishes. MPI belongs to the training
// thread, so the ranks meet in the folder: each leaves a note when its file is on the disk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <io/checkpoint/part_writer.hpp>

namespace shardmark {

/// What a rank tells of its file.
struct PartNote {
  WrittenPart written;
  std::int64_t bytes = 0;  // of the file
};

class BackgroundWrite {
 public:
  /// Writes a rank's file, flushed to the disk. In the thread; throws IoError.
  using Write = std::function<PartNote()>;
  /// Of rank 0: all ranks' notes, in rank order. In the thread; throws IoError.
  using Publish = std::function<void(const std::vector<PartNote>&)>;

  /// `publish` may be empty: then another rank publishes. Waits at most `timeout_s` for the others.
  BackgroundWrite(std::string folder, int rank, int world, double timeout_s, Write write,
                  Publish publish);
  ~BackgroundWrite();
  BackgroundWrite(const BackgroundWrite&) = delete;
  BackgroundWrite& operator=(const BackgroundWrite&) = delete;

  /// Waits for the thread. Throws what it threw; its seconds otherwise.
  double finish();

 private:
  std::thread thread_;
  std::exception_ptr error_;
  double seconds_ = 0;
};

}  // namespace shardmark
