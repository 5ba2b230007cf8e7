// SPDX-License-Identifier: Apache-2.0
// Times every kernel that is launched between `begin` and `end`, by Kokkos Tools' callbacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardmark {

/// One launch. The label has no prefix.
struct HeardKernel {
  std::string label;
  std::int64_t ns = 0;
};

/// What a listener has heard since it began.
struct Heard {
  bool on = false;
  int open = 0;  // kernels, of which one may launch others
  std::int64_t start_ns = 0;
  std::vector<HeardKernel> kernels;
};

/// At most one exists at a time. On a GPU Kokkos fences around each kernel while it exists.
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
