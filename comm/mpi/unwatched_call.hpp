// SPDX-License-Identifier: Apache-2.0
// Calls that wait for other ranks within the library: communicators are made and freed so. The
// watchdog cannot end such a wait, so whoever guards the process is told about it.
#pragma once

namespace shardmark {

/// From its construction to its destruction, the thread is in such a call. Calls within it are not
/// told.
class UnwatchedCall {
 public:
  /// Is given what begins, and null when it ends. Must not throw.
  using Listener = void (*)(const char* what);
  /// Not while other threads are in such calls.
  static void tell(Listener listener);

  explicit UnwatchedCall(const char* what);
  ~UnwatchedCall();
  UnwatchedCall(const UnwatchedCall&) = delete;
  UnwatchedCall& operator=(const UnwatchedCall&) = delete;
};

}  // namespace shardmark
