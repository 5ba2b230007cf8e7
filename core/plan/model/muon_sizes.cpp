// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/muon_sizes.hpp>

namespace shardmark {

MuonWorkspace muon_workspace(std::int64_t rows, std::int64_t cols) {
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
