// SPDX-License-Identifier: Apache-2.0
// How a product is cut so that the library makes it fast and within bounded scratch.
#pragma once

#include <core/nn/matmul.hpp>

namespace shardmark {

/// Extents of the pieces, at most the product's own, and whether each piece of B is packed into the
/// library's own layout first.
struct Pieces {
  std::int64_t m, n, k;
  bool packed;
};

/// Of a product in fp32 or bf16 whose scratch may be `cap_bytes`.
Pieces pieces_of(const MatMulShape& shape, std::int64_t cap_bytes);

}  // namespace shardmark
