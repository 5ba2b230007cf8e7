// SPDX-License-Identifier: Apache-2.0
// How a product is cut so that the library makes it fast and within bounded scratch.
#pragma once

#include <core/nn/products/matmul.hpp>

namespace shardmark {

/// How the library makes a piece: in its first way; with the piece of B packed into a layout of its
/// own before; or, of bf16, with fp32 sums of all of the piece of C in the scratch.
enum class Way : std::uint8_t { first, packed, summed };

/// Extents of the pieces, at most the product's own.
struct Pieces {
  std::int64_t m, n, k;
  Way way;
};

/// Of a product in fp32 or bf16 whose scratch may be `cap_bytes`.
Pieces pieces_of(const MatMulShape& shape, std::int64_t cap_bytes);

}  // namespace shardmark
