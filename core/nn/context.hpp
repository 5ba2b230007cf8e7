// SPDX-License-Identifier: Apache-2.0
// What every compute call is handed: the execution-space instance its kernels run on, the matrix
// products, and a way to let communication progress between kernels.
#pragma once

#include <Kokkos_Core.hpp>

namespace shardmark {

class MatMul;

using ExecSpace = Kokkos::DefaultExecutionSpace;

struct Context {
  ExecSpace space;
  MatMul& matmul;
  void (*poll)(void*) = nullptr;  // called after every kernel and product; may be null
  void* poll_arg = nullptr;

  void progress() const {
    if (poll != nullptr) poll(poll_arg);
  }
};

}  // namespace shardmark
