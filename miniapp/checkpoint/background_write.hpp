// SPDX-License-Identifier: Apache-2.0
// The part of an asynchronous checkpoint that continues while training goes on. One thread per rank
// writes the rank's file; rank 0's thread then waits for all ranks and publishes. Only the training
// thread may call MPI, so the ranks meet in the folder: each leaves a note once its file is on
// disk.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include <io/checkpoint/part_writer.hpp>

namespace shardmark {

/// One checkpoint that is being written. The constructor starts the thread; the destructor gives up
/// and waits for it. Only the training thread may call the members, and none of them is collective.
class BackgroundWrite {
 public:
  /// Writes the rank's file and flushes it to the disk. Runs in the thread; throws IoError.
  using Write = std::function<WrittenPart()>;
  /// Is given the notes of all ranks, in rank order. Runs in rank 0's thread; throws IoError.
  using Publish = std::function<void(const std::vector<WrittenPart>&)>;

  /// `publish` is empty if another rank publishes. The thread waits at most `timeout_s` seconds for
  /// the other ranks.
  BackgroundWrite(std::string folder, int rank, int world, double timeout_s, Write write,
                  Publish publish);
  ~BackgroundWrite();
  BackgroundWrite(const BackgroundWrite&) = delete;
  BackgroundWrite& operator=(const BackgroundWrite&) = delete;

  /// Ends the wait for the other ranks because one of them failed. `finish` throws then.
  void give_up() { given_up_ = true; }
  /// Waits for the thread. Throws what the thread threw, else returns how many seconds it took.
  double finish();

 private:
  std::atomic<bool> given_up_ = false;
  std::exception_ptr error_;
  double seconds_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace shardmark
