// SPDX-License-Identifier: Apache-2.0
// The scratch in which Muon orthogonalizes one matrix. Its smaller side is n and its larger side m.
#pragma once

#include <algorithm>

#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {

/// Offsets in the workspace, in bytes. At its end, at `gemm`, is the scratch of matrix products.
struct MuonWorkspace {
  std::int64_t sums = 0;                 // two sums of squares, fp64
  std::int64_t matrix = 0, product = 0;  // [rows][cols]: the iterate, and the next one
  std::int64_t square[5] = {};           // [n][n]
  std::int64_t gemm = 0;
};
/// Throws SizeError beyond 63 bits.
inline MuonWorkspace muon_workspace(std::int64_t rows, std::int64_t cols) {
  Offsets o(Dtype::fp16);  // bf16 has the same size
  MuonWorkspace w;
  const std::int64_t n = std::min(rows, cols), elems = size_mul(rows, cols);
  w.sums = o.take_fp32(2 * std::int64_t{sizeof(double)} / std::int64_t{sizeof(float)});
  w.matrix = o.take(elems);
  w.product = o.take(elems);
  for (std::int64_t& at : w.square) at = o.take(size_mul(n, n));
  w.gemm = o.end();
  return w;
}

}  // namespace shardmark
