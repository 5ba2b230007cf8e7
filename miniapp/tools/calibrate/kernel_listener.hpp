// SPDX-License-Identifier: Apache-2.0
// Times every kernel that is launched between `begin` and `end`, by Kokkos Tools' callbacks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

/// One launch. The label has no prefix.
struct HeardKernel {
  std::string label;
  std::int64_t ns = 0;
};

/// What an empty kernel takes a host, in nanoseconds, if it waits for each kernel, as it does while
/// a listener exists, and as one of many that are launched behind each other. Both are 0 on a host,
/// where a kernel runs as it is called.
struct LaunchCost {
  std::int64_t alone_ns = 0, in_row_ns = 0;

  /// Returns the time of a kernel that took `ns` alone as one of many: without the launch and the
  /// wait, which a stream of kernels hides.
  std::int64_t in_row(std::int64_t ns) const {
    return std::max(std::min(ns, in_row_ns), ns - std::max<std::int64_t>(0, alone_ns - in_row_ns));
  }
};

/// What a listener has heard since it began.
struct Heard {
  bool on = false;
  int open = 0;  // kernels, of which one may launch others
  std::int64_t start_ns = 0;
  LaunchCost launch;
  std::vector<HeardKernel> kernels;
};

/// At most one exists at a time. On a GPU Kokkos fences around each kernel while it exists; what
/// that costs is measured once and taken off the times.
class KernelListener {
 public:
  KernelListener();
  ~KernelListener();
  KernelListener(const KernelListener&) = delete;
  KernelListener& operator=(const KernelListener&) = delete;

  /// Forgets all and listens.
  void begin();
  /// Stops listening. Returns the kernels with a ShardMark label in the order of their launches;
  /// kernels within others are not listed.
  std::vector<HeardKernel>& end();

 private:
  Heard heard_;
};

}  // namespace shardmark
