// SPDX-License-Identifier: Apache-2.0
// What every compute call is handed: the execution-space instance its kernels run on, the matrix
// products, and a way to let communication progress between kernels.
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

  void progress() const {
    if (poll != nullptr) poll(poll_arg);
  }
};

}  // namespace shardmark
