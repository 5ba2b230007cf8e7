// SPDX-License-Identifier: Apache-2.0
// The argument that every compute function receives: the execution-space instance on which its
// kernels run, the matrix products, and a function that lets communication progress between
// kernels.
#pragma once

#include <core/kokkos_shim.hpp>

namespace shardmark {

class MatMul;

/// What every compute call receives. It is passed by reference and must outlive the call.
struct Context {
  Space space;
  MatMul& matmul;
  void (*poll)(void*) = nullptr;  // called after every kernel and product; may be null
  void* poll_arg = nullptr;
  bool emulating = false;  // a kernel is emulated by waiting: polls count as computing

  void progress() const {
    if (poll != nullptr) poll(poll_arg);
  }
};

}  // namespace shardmark
