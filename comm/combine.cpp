// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include <comm/combine.hpp>
#include <core/error.hpp>
#include <core/half.hpp>

namespace shardmark {
namespace {

// How an element type is read into and written from the type that it is summed in.
template<class T, class D = T>
struct Plain {
  using Stored = T;
  using Sum = T;
  using Divisor = D;
  static Sum load(Stored v) { return v; }
  static Stored store(Sum v) { return v; }
};
struct WideBf16 {
  using Stored = Bf16;
  using Sum = float;
  using Divisor = float;
  static Sum load(Stored v) { return widen(v); }
  static Stored store(Sum v) { return round_bf16(v); }
};
struct WideFp16 {
  using Stored = Fp16;
  using Sum = float;
  using Divisor = float;
  static Sum load(Stored v) { return widen(v); }
  static Stored store(Sum v) { return round_fp16(v); }
};

template<class Format>
void combine(Reduction reduction, const void* const* rows, int size, void* out,
             std::int64_t elems) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  const auto row = [&](int r) { return static_cast<const Stored*>(rows[r]); };
  auto* result = static_cast<Stored*>(out);
  constexpr std::int64_t block_elems = 1024;  // sums stay in the first cache while the ranks pass
  std::array<Sum, block_elems> sum;
  for (std::int64_t first = 0; first < elems; first += block_elems) {
    const std::int64_t n = std::min(block_elems, elems - first);
    for (std::int64_t i = 0; i < n; ++i) sum[i] = Format::load(row(0)[first + i]);
    for (int r = 1; r < size; ++r) {
      const Stored* next = row(r) + first;
      if (reduction == Reduction::max)
        for (std::int64_t i = 0; i < n; ++i) sum[i] = std::max(sum[i], Format::load(next[i]));
      else
        for (std::int64_t i = 0; i < n; ++i) sum[i] += Format::load(next[i]);
    }
    const auto divisor = static_cast<typename Format::Divisor>(size);
    if (reduction == Reduction::average)
      for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<Sum>(sum[i] / divisor);
    for (std::int64_t i = 0; i < n; ++i) result[first + i] = Format::store(sum[i]);
  }
}

template<class T, class Divisor = T>
void divide_all(void* data, std::int64_t elems, int divisor) {
  auto* value = static_cast<T*>(data);
  const auto d = static_cast<Divisor>(divisor);
  for (std::int64_t i = 0; i < elems; ++i) value[i] = static_cast<T>(value[i] / d);
}

[[noreturn]] void refuse(std::string_view what, Dtype dtype) {
  throw CommError(std::string(what) + " of " + std::string(to_string(dtype)) +
                  ": not done here: bug in the back-end's routes");
}

}  // namespace

void combine_in_rank_order(Dtype dtype, Reduction reduction, const void* const* rows, int size,
                           void* out, std::int64_t elems) {
  switch (dtype) {
    case Dtype::fp32: return combine<Plain<float>>(reduction, rows, size, out, elems);
    case Dtype::fp64: return combine<Plain<double>>(reduction, rows, size, out, elems);
    case Dtype::bf16: return combine<WideBf16>(reduction, rows, size, out, elems);
    case Dtype::fp16: return combine<WideFp16>(reduction, rows, size, out, elems);
    case Dtype::int32: return combine<Plain<std::int32_t>>(reduction, rows, size, out, elems);
    case Dtype::int64: return combine<Plain<std::int64_t>>(reduction, rows, size, out, elems);
    case Dtype::uint8: return combine<Plain<std::uint8_t, int>>(reduction, rows, size, out, elems);
  }
}

void divide(Dtype dtype, void* data, std::int64_t elems, int divisor) {
  switch (dtype) {
    case Dtype::fp32: return divide_all<float>(data, elems, divisor);
    case Dtype::fp64: return divide_all<double>(data, elems, divisor);
    case Dtype::int32: return divide_all<std::int32_t>(data, elems, divisor);
    case Dtype::int64: return divide_all<std::int64_t>(data, elems, divisor);
    case Dtype::uint8: return divide_all<std::uint8_t, int>(data, elems, divisor);
    default: refuse("division", dtype);
  }
}

}  // namespace shardmark
