// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include <comm/local_reduction.hpp>
#include <core/error.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

// How a stored type is converted to and from the type in which it is summed.
template<class T, class D = T>
struct Plain {
  using Stored = T;
  using Sum = T;
  using Divisor = D;
  static Sum load(Stored v) { return v; }
  static Stored store(Sum v) { return v; }
};
template<class T>
struct Wide {
  using Stored = T;
  using Sum = float;
  using Divisor = float;
  static Sum load(Stored v) { return widen(v); }
  static Stored store(Sum v) {
    Stored rounded;
    round_to(rounded, v);
    return rounded;
  }
};

// The operations that combine two values.
template<class Sum>
struct Add {
  static Sum join(Sum a, Sum b) { return static_cast<Sum>(a + b); }
};
template<class Sum>
struct Highest {
  static Sum join(Sum a, Sum b) { return std::max(a, b); }
};

template<class Format, class Join, bool average>
struct Combine {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  typename Format::Divisor divisor;

  Stored finish(Sum v) const { return Format::store(average ? static_cast<Sum>(v / divisor) : v); }

  // The case of two rows: sums stay in registers, so both rows stream through the cache. A run is
  // loaded completely before it is stored, because `out` may be one of the rows; this also allows
  // the compiler to vectorise.
  void two(const Stored* a, const Stored* b, Stored* out, std::int64_t elems) const {
    constexpr std::int64_t run_elems = 64;
    std::int64_t first = 0;
    for (; first + run_elems <= elems; first += run_elems) {
      Stored done[run_elems];
      for (std::int64_t i = 0; i < run_elems; ++i)
        done[i] = finish(Join::join(Format::load(a[first + i]), Format::load(b[first + i])));
      for (std::int64_t i = 0; i < run_elems; ++i) out[first + i] = done[i];
    }
    for (; first < elems; ++first)
      out[first] = finish(Join::join(Format::load(a[first]), Format::load(b[first])));
  }

  void any(const void* const* rows, int size, Stored* out, std::int64_t elems) const {
    const auto row = [&](int r) { return static_cast<const Stored*>(rows[r]); };
    if (size == 2) return two(row(0), row(1), out, elems);
    constexpr std::int64_t block_elems = 1024;  // the sums stay in the L1 cache over all ranks
    std::array<Sum, block_elems> sum;
    for (std::int64_t first = 0; first < elems; first += block_elems) {
      const std::int64_t n = std::min(block_elems, elems - first);
      for (std::int64_t i = 0; i < n; ++i) sum[i] = Format::load(row(0)[first + i]);
      for (int r = 1; r < size; ++r) {
        const Stored* const next = row(r) + first;
        for (std::int64_t i = 0; i < n; ++i) sum[i] = Join::join(sum[i], Format::load(next[i]));
      }
      for (std::int64_t i = 0; i < n; ++i) out[first + i] = finish(sum[i]);
    }
  }
};

template<class Format>
void combine(Reduction reduction, const void* const* rows, int size, void* out,
             std::int64_t elems) {
  using Sum = typename Format::Sum;
  auto* result = static_cast<typename Format::Stored*>(out);
  const auto divisor = static_cast<typename Format::Divisor>(size);
  switch (reduction) {
    case Reduction::max:
      return Combine<Format, Highest<Sum>, false>{divisor}.any(rows, size, result, elems);
    case Reduction::average:
      return Combine<Format, Add<Sum>, true>{divisor}.any(rows, size, result, elems);
    default: return Combine<Format, Add<Sum>, false>{divisor}.any(rows, size, result, elems);
  }
}

template<class T, class Divisor = T>
void divide_all(void* data, std::int64_t elems, int divisor) {
  auto* value = static_cast<T*>(data);
  const auto d = static_cast<Divisor>(divisor);
  for (std::int64_t i = 0; i < elems; ++i) value[i] = static_cast<T>(value[i] / d);
}

}  // namespace

void combine_in_rank_order(Dtype dtype, Reduction reduction, const void* const* rows, int size,
                           void* out, std::int64_t elems) {
  switch (dtype) {
    case Dtype::fp32: return combine<Plain<float>>(reduction, rows, size, out, elems);
    case Dtype::fp64: return combine<Plain<double>>(reduction, rows, size, out, elems);
    case Dtype::bf16: return combine<Wide<Bf16>>(reduction, rows, size, out, elems);
    case Dtype::fp16: return combine<Wide<Fp16>>(reduction, rows, size, out, elems);
    case Dtype::int32: return combine<Plain<std::int32_t>>(reduction, rows, size, out, elems);
    case Dtype::int64: return combine<Plain<std::int64_t>>(reduction, rows, size, out, elems);
    case Dtype::int8: return combine<Plain<std::int8_t, int>>(reduction, rows, size, out, elems);
    case Dtype::uint8: return combine<Plain<std::uint8_t, int>>(reduction, rows, size, out, elems);
  }
}

void divide(Dtype dtype, void* data, std::int64_t elems, int divisor) {
  switch (dtype) {
    case Dtype::fp32: return divide_all<float>(data, elems, divisor);
    case Dtype::fp64: return divide_all<double>(data, elems, divisor);
    case Dtype::int32: return divide_all<std::int32_t>(data, elems, divisor);
    case Dtype::int64: return divide_all<std::int64_t>(data, elems, divisor);
    case Dtype::int8: return divide_all<std::int8_t, int>(data, elems, divisor);
    case Dtype::uint8: return divide_all<std::uint8_t, int>(data, elems, divisor);
    default: break;
  }
  throw CommError("division: dtype = " + std::string(to_string(dtype)) +
                  ": is not implemented: this is a defect of the back-end's routes");
}

}  // namespace shardmark
