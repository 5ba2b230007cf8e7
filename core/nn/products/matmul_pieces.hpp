// SPDX-License-Identifier: Apache-2.0
// How a product is split into pieces, so that the library computes it fast and with bounded
// scratch.
#pragma once

#include <core/nn/products/matmul.hpp>

namespace shardmark {

/// How the library computes a piece. `standard`: with its first implementation. `packed`: after
/// packing the piece of B into a layout of its own. `summed` (bf16): with fp32 sums of the whole
/// piece of C in the scratch.
enum class ProductMethod : std::uint8_t { standard, packed, summed };

/// The extents of the pieces, at most those of the product.
struct Pieces {
  std::int64_t m, n, k;
  ProductMethod method;
};

/// Returns the pieces of a product in fp32 or bf16 whose scratch is at most `cap_bytes`.
Pieces pieces_of(const MatMulShape& shape, std::int64_t cap_bytes);

}  // namespace shardmark
