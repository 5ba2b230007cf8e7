// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <core/nn/kernels/pieces.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t row_piece = 8192;  // elements that one row of a kernel processes

// Gradients and results are fp32 more often than not.
constexpr int transfer_elems = kernel::short_run_elems;
using TransferValues = float[transfer_elems];

// What happens to a value before it is stored. If the divisor is a power of two, multiplying by its
// reciprocal gives the same bits several times faster.
struct Quotient {
  explicit Quotient(double divisor) : by(static_cast<float>(divisor)) {
    int exponent = 0;
    multiplies = std::frexp(by, &exponent) == 0.5f;
    if (multiplies) by = 1.0f / by;
  }
  KOKKOS_INLINE_FUNCTION bool changes() const { return by != 1.0f; }
  // Returns the quotients of `x`, in `results` if they differ from x.
  KOKKOS_INLINE_FUNCTION const float* of(std::int64_t n, const float* x, float* results) const {
    const float with = by;
    if (!changes()) return x;
    if (multiplies)
      kernel::simd_loop(n, [&](std::int64_t j) { results[j] = x[j] * with; });
    else
      kernel::simd_loop(n, [&](std::int64_t j) { results[j] = x[j] / with; });
    return results;
  }

  float by;
  bool multiplies;
};

// Writes `values`, rounded in the type T, to `widened`.
template<class T>
KOKKOS_INLINE_FUNCTION void round_in(std::int64_t n, const float* values, float* widened) {
  kernel::simd_loop(n, [&](std::int64_t j) {
    T rounded;
    round_to(rounded, values[j]);
    widened[j] = widen(rounded);
  });
}

// to = quotient of `from`, for tensors of any storage types.
struct Transfer {
  Stored to;
  ConstStored from;
  Quotient quotient;
  bool streams;

  // Does the same for `n` elements, a short run, which one thread of a GPU processes.
  KOKKOS_INLINE_FUNCTION void run(std::int64_t at, std::int64_t source, int n) const {
    if (to.dtype == from.dtype && !quotient.changes()) {
      if (to.dtype == Dtype::fp32)
        return kernel::copy_run<transfer_elems>(
            static_cast<std::uint32_t*>(to.data) + at,
            static_cast<const std::uint32_t*>(from.data) + source, n);
      return kernel::copy_run<transfer_elems>(static_cast<std::uint16_t*>(to.data) + at,
                                              static_cast<const std::uint16_t*>(from.data) + source,
                                              n);
    }
    TransferValues values;
    kernel::load_run(from.dtype, from.data, source, n, values);
    if (quotient.changes()) {
      for (float& v : values) v = quotient.multiplies ? v * quotient.by : v / quotient.by;
      // A quotient is first rounded in the type of the value that is divided.
      if (from.dtype == Dtype::bf16) round_in<Bf16>(transfer_elems, values, values);
      if (from.dtype == Dtype::fp16) round_in<Fp16>(transfer_elems, values, values);
    }
    kernel::store_run(to.dtype, to.data, at, n, values);
  }

  // Stores `count` quotients from element `source` on as elements of `to` from `at` on.
  KOKKOS_INLINE_FUNCTION void part(std::int64_t at, std::int64_t source, std::int64_t count) const {
    if (to.dtype == from.dtype && !quotient.changes()) return copy(at, source, count);
    kernel::Results results(to.dtype, to.data, streams);
    kernel::for_pieces(0, count, [&](std::int64_t first, std::int64_t n) {
      float widened[kernel::piece_elems], quotients[kernel::piece_elems];
      const float* values = kernel::widen_piece(from.dtype, from.data, source + first, n, widened);
      values = quotient.of(n, values, quotients);
      // A quotient is first rounded in the type of the value that is divided.
      if (quotient.changes() && from.dtype != to.dtype && from.dtype != Dtype::fp32) {
        if (from.dtype == Dtype::bf16)
          round_in<Bf16>(n, values, quotients);
        else
          round_in<Fp16>(n, values, quotients);
      }
      results.put(at + first, n, values);
    });
    results.finish();
  }

 private:
  KOKKOS_INLINE_FUNCTION void copy(std::int64_t at, std::int64_t source, std::int64_t count) const {
    const std::int64_t bytes = to.dtype == Dtype::fp32 ? 4 : 2;
    auto* d = static_cast<unsigned char*>(to.data) + at * bytes;
    const auto* s = static_cast<const unsigned char*>(from.data) + source * bytes;
    const auto size = static_cast<std::size_t>(count * bytes);
    if (!streams) return static_cast<void>(std::memcpy(d, s, size));
    kernel::stream_copy(d, s, size);
    kernel::finish_streams();
  }
};

/// All of a transfer, run by run.
struct TransferRun {
  Transfer transfer;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const { transfer.run(at, at, n); }
};

/// into += from, run by run.
struct AccumulateRun {
  Stored into;
  ConstStored from;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    TransferValues a, b;
    kernel::load_run(into.dtype, into.data, at, n, a);
    kernel::load_run(from.dtype, from.data, at, n, b);
    for (int j = 0; j < transfer_elems; ++j) a[j] += b[j];
    kernel::store_run(into.dtype, into.data, at, n, a);
  }
};

/// Zeros to short runs of words.
struct ClearRun {
  unsigned char* data;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    constexpr std::int64_t word = sizeof(float);
    constexpr TransferValues zeros = {};
    kernel::store_run(reinterpret_cast<float*>(data + at * word), n, zeros);
  }
};

// Transfers all elements in their order.
void transfer_all(const Context& ctx, const char* label, std::int64_t elems,
                  const Transfer& transfer) {
  if constexpr (kernel::rows_are_warps)
    kernel::for_each_run<transfer_elems>(ctx, label, elems, TransferRun{transfer});
  else
    kernel::for_each_part(
        ctx, label, elems, transfer.streams,
        KOKKOS_LAMBDA(std::int64_t at, std::int64_t count) { transfer.part(at, at, count); });
}

Transfer transfer_of(std::int64_t elems, Stored to, ConstStored from, double divisor) {
  for (const Dtype dtype : {to.dtype, from.dtype}) with_storage(dtype, [](auto) {});
  return {to, from, Quotient(divisor), kernel::worth_streaming(to.dtype, elems)};
}

// Gradient norms are converted between fp32 and fp64.
void convert_double(const Context& ctx, std::int64_t elems, Stored to, ConstStored from) {
  const Dtype other = to.dtype == Dtype::fp64 ? from.dtype : to.dtype;
  if (other == Dtype::fp64) {
    auto* d = static_cast<double*>(to.data);
    const auto* s = static_cast<const double*>(from.data);
    return kernel::for_each_elem(
        ctx, "shardmark::convert", elems, KOKKOS_LAMBDA(std::int64_t i) { d[i] = s[i]; });
  }
  if (other != Dtype::fp32)
    throw PlanError("convert: fp64 and " + std::string(to_string(other)) +
                    ": fp64 must be converted from or to fp32: convert in two steps");
  if (to.dtype == Dtype::fp64) {
    auto* d = static_cast<double*>(to.data);
    const auto* s = static_cast<const float*>(from.data);
    kernel::for_each(
        ctx, "shardmark::convert_fp64", elems, KOKKOS_LAMBDA(std::int64_t i) { d[i] = s[i]; });
  } else {
    auto* d = static_cast<float*>(to.data);
    const auto* s = static_cast<const double*>(from.data);
    kernel::for_each(
        ctx, "shardmark::convert_fp64", elems,
        KOKKOS_LAMBDA(std::int64_t i) { d[i] = static_cast<float>(s[i]); });
  }
}

// Several rows may store to the flag, but all store the same value.
// It is a function template of its own, because nvcc accepts no kernel inside a generic lambda.
template<class T>
void find_not_finite(const Context& ctx, std::int64_t elems, const T* s, std::uint8_t* flag) {
  kernel::for_each_row(
      ctx, "shardmark::flag_not_finite", (elems + row_piece - 1) / row_piece,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const T* part = s + p * row_piece;
        const std::int64_t rest = elems - p * row_piece;
        const int found = row.sum<int>(rest < row_piece ? rest : row_piece, [&](std::int64_t i) {
          std::uint32_t bits = 0;
          const float v = widen(part[i]);
          std::memcpy(&bits, &v, sizeof bits);
          return (bits & 0x7f800000u) == 0x7f800000u ? 1 : 0;
        });
        row.once([&] {
          if (found > 0) *flag = 1;
        });
      });
}

// Calls `f(row, r, begin, count)` for each part of each of the `rows` rows of `row_elems` elements.
// There are only as many rows as ranks, too few to occupy a GPU.
template<class F>
void for_each_row_part(const Context& ctx, const char* label, int rows, std::int64_t row_elems,
                       const F& f) {
  const std::int64_t parts = (row_elems + row_piece - 1) / row_piece;
  kernel::for_each_row(
      ctx, label, rows * parts, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const std::int64_t begin = p % parts * row_piece, rest = row_elems - begin;
        f(row, p / parts, begin, rest < row_piece ? rest : row_piece);
      });
}

// Transfers `count` elements of a row.
KOKKOS_INLINE_FUNCTION void transfer_part(const kernel::ThreadRow&, const Transfer& transfer,
                                          std::int64_t at, std::int64_t source,
                                          std::int64_t count) {
  transfer.part(at, source, count);
}
KOKKOS_INLINE_FUNCTION void transfer_part(const kernel::WarpRow& row, const Transfer& transfer,
                                          std::int64_t at, std::int64_t source,
                                          std::int64_t count) {
  row.runs<transfer_elems>(count,
                           [&](std::int64_t i, int n) { transfer.run(at + i, source + i, n); });
}

}  // namespace

void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from, double divisor) {
  if (to.dtype == Dtype::fp64 || from.dtype == Dtype::fp64) {
    if (divisor != 1)
      throw PlanError("convert: divisor with fp64: must be 1: call divide before or after");
    return convert_double(ctx, elems, to, from);
  }
  transfer_all(ctx, "shardmark::convert", elems, transfer_of(elems, to, from, divisor));
}

void accumulate(const Context& ctx, std::int64_t elems, Stored into, ConstStored from) {
  for (const Dtype dtype : {into.dtype, from.dtype}) with_storage(dtype, [](auto) {});
  if constexpr (kernel::rows_are_warps)
    return kernel::for_each_run<transfer_elems>(ctx, "shardmark::accumulate", elems,
                                                AccumulateRun{into, from});
  kernel::for_each_piece(
      ctx, "shardmark::accumulate", elems, into, false,
      KOKKOS_LAMBDA(std::int64_t at, std::int64_t n, kernel::Results & results) {
        float widened[kernel::piece_elems], other[kernel::piece_elems], sums[kernel::piece_elems];
        const float* a = kernel::widen_piece(into.dtype, into.data, at, n, widened);
        const float* b = kernel::widen_piece(from.dtype, from.data, at, n, other);
        kernel::simd_loop(n, [&](std::int64_t j) { sums[j] = a[j] + b[j]; });
        results.put(at, n, sums);
      });
}

void divide(const Context& ctx, std::int64_t elems, Stored x, double divisor) {
  if (x.dtype == Dtype::fp64) {
    auto* d = static_cast<double*>(x.data);
    kernel::for_each(
        ctx, "shardmark::divide", elems, KOKKOS_LAMBDA(std::int64_t i) { d[i] /= divisor; });
    return;
  }
  Transfer transfer = transfer_of(elems, x, x, divisor);
  transfer.streams = false;
  transfer_all(ctx, "shardmark::divide", elems, transfer);
}

void clear(const Context& ctx, std::int64_t bytes, void* data) {
  auto* d = static_cast<unsigned char*>(data);
  constexpr std::int64_t word = sizeof(float);
  if (kernel::rows_are_warps && reinterpret_cast<std::uintptr_t>(d) % word == 0) {
    const std::int64_t words = bytes / word;
    if (words > 0)
      kernel::for_each_run<transfer_elems>(ctx, "shardmark::clear", words, ClearRun{d});
    d += words * word;
    bytes -= words * word;
    if (bytes == 0) return;
  }
  kernel::for_each_elem(
      ctx, "shardmark::clear", bytes, KOKKOS_LAMBDA(std::int64_t i) { d[i] = 0; });
}

void flag_not_finite(const Context& ctx, std::int64_t elems, ConstStored x, std::uint8_t* flag,
                     bool first) {
  if (first) clear(ctx, 1, flag);
  with_elements([&](auto* from) { find_not_finite(ctx, elems, from, flag); }, x);
}

void interleave(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                Stored into, ConstStored from, double divisor, std::int64_t shard) {
  if (shard == 0) shard = (elems + rows - 1) / rows;
  const Transfer transfer = transfer_of(elems, into, from, divisor);
  for_each_row_part(
      ctx, "shardmark::interleave", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        const std::int64_t first = r * shard + begin;
        const std::int64_t rest = elems - first;
        const std::int64_t real = rest < 0 ? 0 : rest < count ? rest : count;
        const std::int64_t at = r * row_elems + begin;
        transfer_part(row, transfer, at, first, real);
        const std::int64_t bytes = into.dtype == Dtype::fp32 ? 4 : 2;
        auto* padding = static_cast<unsigned char*>(into.data) + (at + real) * bytes;
        row.loop((count - real) * bytes, [&](std::int64_t i) { padding[i] = 0; });
      });
}

void rearrange(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
               Stored into, ConstStored from) {
  const std::int64_t shard = elems / rows;
  const Transfer transfer = transfer_of(elems, into, from, 1);
  for_each_row_part(
      ctx, "shardmark::rearrange", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        transfer_part(row, transfer, r * shard + begin, r * row_elems + begin, count);
      });
}

}  // namespace shardmark
