// SPDX-License-Identifier: Apache-2.0
// The scratch in which Muon orthogonalizes one matrix. Its smaller side is n and its larger side m.
#pragma once

#include <algorithm>

#include <core/plan/deck/optimizers.hpp>
#include <core/plan/model/layout_offsets.hpp>

namespace shardmark {

/// The type in which Newton-Schulz iterations run: DeepSpeed's methods `gram` and `standard` differ
/// in it too.
constexpr Dtype newton_schulz_type(Optimizer muon) {
  return muon == Optimizer::muon ? Dtype::fp16 : Dtype::bf16;
}

/// Whether the iterations run on the Gram matrix instead of the matrix itself: on rectangular
/// matrices, where this is less work.
constexpr bool iterates_on_gram(Optimizer muon, std::int64_t rows, std::int64_t cols) {
  return muon == Optimizer::muon && rows != cols;
}

inline constexpr int newton_schulz_steps = 5;
/// The step before which the method `gram` makes its Gram matrix anew.
inline constexpr int gram_restart = 2;

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
