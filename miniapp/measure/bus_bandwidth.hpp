// SPDX-License-Identifier: Apache-2.0
// nccl-tests' bus bandwidth (doc/PERFORMANCE.md there): what the slowest link carried, whatever the
// collective and the number of ranks.
#pragma once

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// From algorithm bandwidth, S bytes over time with S the whole array, to bus bandwidth.
inline double bus_factor(Op op, int n) {
  const auto ranks = static_cast<double>(n);
  switch (op) {
    case Op::all_reduce: return 2.0 * (ranks - 1.0) / ranks;
    case Op::all_gather:
    case Op::reduce_scatter: return (ranks - 1.0) / ranks;
    default: return 1.0;
  }
}

}  // namespace shardmark
