// SPDX-License-Identifier: Apache-2.0
// Bus bandwidth as nccl-tests defines it (doc/PERFORMANCE.md there): the rate at which the slowest
// link carried data, comparable across collectives and numbers of ranks.
#pragma once

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// Bus bandwidth divided by algorithm bandwidth, which is the bytes of the whole array over time.
inline double bus_factor(Op op, int n) {
  const auto ranks = static_cast<double>(n);
  switch (op) {
    case Op::all_reduce: return 2.0 * (ranks - 1.0) / ranks;
    case Op::all_gather:
    case Op::all_to_all:
    case Op::reduce_scatter: return (ranks - 1.0) / ranks;
    default: return 1.0;
  }
}

}  // namespace shardmark
