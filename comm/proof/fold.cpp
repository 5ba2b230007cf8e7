// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include <xxhash.h>

#include <comm/proof/fold.hpp>
#include <core/error.hpp>
#include <core/numeric/half.hpp>
#include <core/random.hpp>

namespace shardmark {
namespace {

double widen(double v) {
  return v;
}

// Several partial sums, so that the compiler can use vectors without reordering anything.
template<class T>
BlockSum fold_block(const T* x, std::int64_t elems, const Weights& weights) {
  constexpr std::int64_t lanes = 8;
  std::array<double, lanes> sums{}, magnitudes{};
  const std::int64_t whole = elems - elems % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const double* w = weights.data() + i % static_cast<std::int64_t>(weights.size());
    for (std::int64_t k = 0; k < lanes; ++k) {
      const double term = w[k] * static_cast<double>(widen(x[i + k]));
      sums[k] += term;
      magnitudes[k] += std::abs(term);
    }
  }
  BlockSum sum;
  for (std::int64_t k = 0; k < lanes; ++k) sum.weighted += sums[k], sum.magnitude += magnitudes[k];
  for (std::int64_t i = whole; i < elems; ++i) {
    const double term =
        weights[static_cast<std::size_t>(i) % weights.size()] * static_cast<double>(widen(x[i]));
    sum.weighted += term, sum.magnitude += std::abs(term);
  }
  return sum;
}

template<class T>
void fold_all(const void* data, std::int64_t elems, std::int64_t block, const Weights& weights,
              BlockSum* out) {
  const T* x = static_cast<const T*>(data);
  for (std::int64_t i = 0; i < elems; i += block)
    *out++ = fold_block(x + i, std::min(block, elems - i), weights);
}

struct FloatingType {
  double unit_roundoff;  // half the distance from 1 to the next larger value
  // The absolute error near zero: results below the smallest normal value may be flushed to zero;
  // those of fp16 are made in fp32 and rounded to a multiple of 2^-24.
  double least_step;
  double largest;
};

FloatingType floating_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return {0x1p-53, 0x1p-1022, std::numeric_limits<double>::max()};
    case Dtype::bf16: return {0x1p-8, 0x1p-126, 0x1.fep127};
    case Dtype::fp16: return {0x1p-11, 0x1p-24, 65504};
    default: return {0x1p-24, 0x1p-126, std::numeric_limits<float>::max()};
  }
}

double gamma(double operations, double u) {
  return operations * u / (1 - operations * u);
}

}  // namespace

ByteFold::ByteFold(std::uint64_t key) : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset_withSeed(state_, key);
}

ByteFold::~ByteFold() {
  XXH3_freeState(state_);
}

void ByteFold::add(const void* data, std::int64_t bytes) {
  XXH3_64bits_update(state_, data, static_cast<std::size_t>(bytes));
}

std::uint64_t ByteFold::value() const {
  return XXH3_64bits_digest(state_);
}

Weights draw_weights(std::uint64_t key) {
  Weights weights;
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.5 + static_cast<double>(splitmix64(key + i) >> 11) * 0x1p-54;
  return weights;
}

void fold_blocks(Dtype dtype, const void* data, std::int64_t elems, std::int64_t block,
                 const Weights& weights, BlockSum* out) {
  switch (dtype) {
    case Dtype::fp32: return fold_all<float>(data, elems, block, weights, out);
    case Dtype::fp64: return fold_all<double>(data, elems, block, weights, out);
    case Dtype::bf16: return fold_all<Bf16>(data, elems, block, weights, out);
    case Dtype::fp16: return fold_all<Fp16>(data, elems, block, weights, out);
    default: throw CommError("fold_blocks: not a floating-point type");
  }
}

std::int64_t block_elems(Dtype dtype, std::int64_t elems) {
  constexpr std::int64_t fine = 4096, most = std::int64_t{1} << 20;
  const std::int64_t longest = dtype_bytes(dtype) == 2 ? 64 : 256;
  const auto least = std::bit_ceil(static_cast<std::uint64_t>((elems + most - 1) / most));
  const auto wanted = std::bit_floor(static_cast<std::uint64_t>(std::max(elems / fine, {1})));
  return std::max({static_cast<std::int64_t>(least),
                   std::min(static_cast<std::int64_t>(wanted), longest), std::int64_t{1}});
}

double rounding_bound(Dtype dtype, int size, std::int64_t block, const BlockSum& sent,
                      const BlockSum& received, double factor, bool rounds_each_sum) {
  const FloatingType type = floating_type(dtype);
  const double u = type.unit_roundoff;
  const bool narrow = dtype_bytes(dtype) == 2;
  const double in_sum = narrow && !rounds_each_sum ? 0x1p-24 : u;
  const double result = factor * received.magnitude;
  const double sums = gamma(size - 1, in_sum) * sent.magnitude;
  const double last = ((narrow && !rounds_each_sum ? 1 : 0) + (factor == 1 ? 0 : 1)) * gamma(1, u);
  const double folding =
      gamma(static_cast<double>(block + size + 4), 0x1p-53) * (sent.magnitude + result);
  const double flushed =
      sent.magnitude > 0 ? static_cast<double>(block) * size * factor * type.least_step : 0;
  return sums + last * result + folding + flushed;
}

double largest(Dtype dtype) {
  return floating_type(dtype).largest;
}

}  // namespace shardmark
