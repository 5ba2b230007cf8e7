// SPDX-License-Identifier: Apache-2.0
// The limits in this file were measured with oneDNN 2.6 on one thread (shapes of gpt2-124m, 256
// rows).
#include <algorithm>

#include <core/nn/products/matmul_pieces.hpp>

namespace shardmark {
namespace {

// Splits `total` into equal pieces of at most `most`, rounded up to `multiple`.
std::int64_t even_piece(std::int64_t total, std::int64_t most, std::int64_t multiple) {
  const std::int64_t count = (total + most - 1) / most;
  const std::int64_t piece = (total + count - 1) / count;
  return std::min(total, (piece + multiple - 1) / multiple * multiple);
}

// fp32: a B that is stored [k][n] is slow if its rows are a multiple of 4 KiB apart, and somewhat
// slow otherwise. Packed into oneDNN's blocked layout it runs at full speed. Such products
// therefore use pieces of B of at most `packed_elems`, which stay in a core's cache; rows of B are
// kept whole as long as a piece has `min_rows` rows. Packing pays off if enough rows of A use B,
// and half of the cap is left to the primitive. If B is stored [n][k], the primitive packs it
// itself.
Pieces packed_pieces(const MatMulShape& s, std::int64_t cap_bytes) {
  constexpr std::int64_t packed_elems = std::int64_t{1} << 20, min_rows = 1024;
  const Pieces whole{s.m, s.n, s.k, ProductMethod::standard};
  if (s.batch != 1 || s.transpose_b || s.m < 64 || s.k * s.n < std::int64_t{64} * 64) return whole;
  const std::int64_t k = even_piece(s.k, std::max(min_rows, packed_elems / s.n), 16);
  const std::int64_t n = even_piece(s.n, std::max<std::int64_t>(64, packed_elems / k), 64);
  return k * n * std::int64_t{sizeof(float)} <= cap_bytes / 2
             ? Pieces{s.m, n, k, ProductMethod::packed}
             : whole;
}

// bf16: the primitive copies what it needs. If its sums have more than about 768 terms and C has
// many rows, an implementation that keeps fp32 sums of all of C in the scratch is a quarter faster
// on matrix tiles; for operands that are parts of larger matrices it is the only one. The longer
// side of C is split until these sums stay in a cache. k is never split, because C takes no partial
// sums.
Pieces bf16_pieces(const MatMulShape& s) {
  constexpr std::int64_t sum_elems = std::int64_t{1} << 20;
  Pieces p{s.m, s.n, s.k, ProductMethod::standard};
  const bool dense =
      s.lda == (s.transpose_a ? s.m : s.k) && s.ldb == (s.transpose_b ? s.k : s.n) && s.ldc == s.n;
  if (s.batch != 1 || (dense && (s.k < 1024 || s.m < 512))) return p;
  p.method = ProductMethod::summed;
  if (s.c_type == Dtype::fp32) return p;
  std::int64_t& longer = s.m < s.n ? p.n : p.m;
  longer = even_piece(longer, std::max<std::int64_t>(64, sum_elems / std::min(s.m, s.n)), 64);
  return p;
}

}  // namespace

Pieces pieces_of(const MatMulShape& s, std::int64_t cap_bytes) {
  return s.type == Dtype::fp32 ? packed_pieces(s, cap_bytes) : bf16_pieces(s);
}

}  // namespace shardmark
