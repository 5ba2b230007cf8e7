// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include <core/nn/kernels/rows.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>
#include <core/numeric/stream_store.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t piece_elems = 8192;  // elements that one row of a kernel processes

// What happens to a value before it is stored: nothing, a multiplication or a division. If the
// divisor is a power of two, multiplying by its reciprocal gives the same bits several times
// faster.
struct Unchanged {
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x; }
};
struct MultiplyBy {
  float factor;
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x * factor; }
};
struct DivideBy {
  float by;
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x / by; }
};

template<class F>
void with_divisor(double divisor, const F& f) {
  const auto by = static_cast<float>(divisor);
  int exponent = 0;
  if (by == 1.0f) return f(Unchanged{});
  if (std::frexp(by, &exponent) == 0.5f) return f(MultiplyBy{1.0f / by});
  f(DivideBy{by});
}

// A quotient is first rounded in the type of the value that is divided.
template<class To, class From, class Quotient>
KOKKOS_INLINE_FUNCTION void put(To& to, const From& from, const Quotient& quotient) {
  constexpr bool same = std::is_same_v<To, From>, divides = !std::is_same_v<Quotient, Unchanged>;
  if constexpr (same && !divides) {
    to = from;
  } else if constexpr (same || !divides) {
    round_to(to, quotient(widen(from)));
  } else {
    From rounded;
    round_to(rounded, quotient(widen(from)));
    round_to(to, widen(rounded));
  }
}

// Writes one thread's part of a large result, computed from `from`, with stores that bypass the
// caches.
template<class To, class From, class Quotient>
void stream_part(std::int64_t count, To* to, const From* from, const Quotient& quotient) {
  if constexpr (std::is_same_v<To, From> && std::is_same_v<Quotient, Unchanged>) {
    kernel::stream_copy(to, from, static_cast<std::size_t>(count) * sizeof(To));
    kernel::finish_streams();
  } else {
    kernel::stream_results(count, to, [&](std::int64_t first, std::int64_t elems, To* results) {
      const From* source = from + first;
      const Quotient q = quotient;
      kernel::strip_loop(
          elems, [&](std::int64_t j) { put(results[j], source[j], q); },
          [&](std::int64_t j) { kernel::prefetch_after(source + j, kernel::lanes); });
    });
  }
}

template<class To, class From, class Quotient>
void convert_typed(const Context& ctx, std::int64_t elems, To* to, const From* from,
                   const Quotient& quotient) {
  const char* label = "shardmark::convert";
  if constexpr (kernel::on_host)
    if (kernel::worth_streaming<To>(elems)) {
      constexpr std::int64_t block = kernel::stream_block;
      return kernel::for_each(
          ctx, label, (elems + block - 1) / block, KOKKOS_LAMBDA(std::int64_t b) {
            const std::int64_t first = b * block, rest = elems - first;
            stream_part(rest < block ? rest : block, to + first, from + first, quotient);
          });
    }
  kernel::for_each_elem(
      ctx, label, elems, KOKKOS_LAMBDA(std::int64_t i) { put(to[i], from[i], quotient); });
}

// Gradient norms are converted between fp32 and fp64.
void convert_double(const Context& ctx, std::int64_t elems, Stored to, ConstStored from) {
  const Dtype other = to.dtype == Dtype::fp64 ? from.dtype : to.dtype;
  if (other == Dtype::fp64)
    return convert_typed(ctx, elems, static_cast<double*>(to.data),
                         static_cast<const double*>(from.data), Unchanged{});
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

// The kernels are in function templates of their own, because nvcc accepts no kernel inside a
// generic lambda.
template<class Into, class From>
void accumulate_typed(const Context& ctx, std::int64_t elems, Into* d, const From* s) {
  kernel::for_each_elem(
      ctx, "shardmark::accumulate", elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(d[i], widen(d[i]) + widen(s[i])); });
}

template<class T, class Quotient>
void divide_typed(const Context& ctx, std::int64_t elems, T* d, const Quotient& quotient) {
  kernel::for_each_elem(
      ctx, "shardmark::divide", elems,
      KOKKOS_LAMBDA(std::int64_t i) { put(d[i], d[i], quotient); });
}

// Several rows may store to the flag, but all store the same value.
template<class T>
void find_not_finite(const Context& ctx, std::int64_t elems, const T* s, std::uint8_t* flag) {
  kernel::for_each_row(
      ctx, "shardmark::flag_not_finite", (elems + piece_elems - 1) / piece_elems,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const T* part = s + p * piece_elems;
        const std::int64_t rest = elems - p * piece_elems;
        const int found =
            row.sum<int>(rest < piece_elems ? rest : piece_elems, [&](std::int64_t i) {
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

// Calls `f(row, r, begin, count)` for each piece of each of the `rows` rows of `row_elems`
// elements. There are only as many rows as ranks, too few to occupy a GPU.
template<class F>
void for_each_piece(const Context& ctx, const char* label, int rows, std::int64_t row_elems,
                    const F& f) {
  const std::int64_t pieces = (row_elems + piece_elems - 1) / piece_elems;
  kernel::for_each_row(
      ctx, label, rows * pieces, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const std::int64_t begin = p % pieces * piece_elems, rest = row_elems - begin;
        f(row, p / pieces, begin, rest < piece_elems ? rest : piece_elems);
      });
}

// Copies one piece of a row.
template<class To, class From, class Quotient>
KOKKOS_INLINE_FUNCTION void copy_piece(const kernel::Row& row, std::int64_t count, To* to,
                                       const From* from, const Quotient& quotient,
                                       [[maybe_unused]] bool streaming) {
  if constexpr (!kernel::rows_are_warps)
    if (streaming) return stream_part(count, to, from, quotient);
  const Quotient q = quotient;
  row.loop(count, [&](std::int64_t i) { put(to[i], from[i], q); });
}

template<class To, class From, class Quotient>
void interleave_typed(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                      To* d, const From* s, const Quotient& quotient, std::int64_t shard) {
  const bool streaming = kernel::worth_streaming<To>(elems);
  for_each_piece(
      ctx, "shardmark::interleave", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        const std::int64_t first = r * shard + begin;
        const std::int64_t rest = elems - first;
        const std::int64_t real = rest < 0 ? 0 : rest < count ? rest : count;
        To* to = d + r * row_elems + begin;
        copy_piece(row, real, to, s + first, quotient, streaming);
        To* padding = to + real;
        row.loop(count - real, [&](std::int64_t i) { padding[i] = To{}; });
      });
}

template<class T>
void rearrange_typed(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems, T* d,
                     const T* s) {
  const std::int64_t shard = elems / rows;
  const bool streaming = kernel::worth_streaming<T>(elems);
  for_each_piece(
      ctx, "shardmark::rearrange", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        copy_piece(row, count, d + r * shard + begin, s + r * row_elems + begin, Unchanged{},
                   streaming);
      });
}

}  // namespace

void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from, double divisor) {
  if (to.dtype == Dtype::fp64 || from.dtype == Dtype::fp64) {
    if (divisor != 1)
      throw PlanError("convert: divisor with fp64: must be 1: call divide before or after");
    return convert_double(ctx, elems, to, from);
  }
  with_storage(to.dtype, [&](auto to_type) {
    using To = decltype(to_type);
    with_storage(from.dtype, [&](auto from_type) {
      using From = decltype(from_type);
      with_divisor(divisor, [&](const auto& quotient) {
        convert_typed(ctx, elems, static_cast<To*>(to.data), static_cast<const From*>(from.data),
                      quotient);
      });
    });
  });
}

void accumulate(const Context& ctx, std::int64_t elems, Stored into, ConstStored from) {
  with_storage(into.dtype, [&](auto into_type) {
    with_storage(from.dtype, [&](auto from_type) {
      accumulate_typed(ctx, elems, static_cast<decltype(into_type)*>(into.data),
                       static_cast<const decltype(from_type)*>(from.data));
    });
  });
}

void divide(const Context& ctx, std::int64_t elems, Stored x, double divisor) {
  if (x.dtype == Dtype::fp64) {
    auto* d = static_cast<double*>(x.data);
    kernel::for_each(
        ctx, "shardmark::divide", elems, KOKKOS_LAMBDA(std::int64_t i) { d[i] /= divisor; });
    return;
  }
  with_divisor(divisor, [&](const auto& quotient) {
    with_storage(x.dtype, [&](auto type) {
      divide_typed(ctx, elems, static_cast<decltype(type)*>(x.data), quotient);
    });
  });
}

void clear(const Context& ctx, std::int64_t bytes, void* data) {
  auto* d = static_cast<unsigned char*>(data);
  kernel::for_each_elem(
      ctx, "shardmark::clear", bytes, KOKKOS_LAMBDA(std::int64_t i) { d[i] = 0; });
}

void flag_not_finite(const Context& ctx, std::int64_t elems, ConstStored x, std::uint8_t* flag,
                     bool first) {
  if (first) clear(ctx, 1, flag);
  with_storage(x.dtype, [&](auto type) {
    find_not_finite(ctx, elems, static_cast<const decltype(type)*>(x.data), flag);
  });
}

void interleave(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                Stored into, ConstStored from, double divisor, std::int64_t shard) {
  if (shard == 0) shard = (elems + rows - 1) / rows;
  with_storage(into.dtype, [&](auto to_type) {
    with_storage(from.dtype, [&](auto from_type) {
      with_divisor(divisor, [&](const auto& quotient) {
        interleave_typed(ctx, elems, rows, row_elems, static_cast<decltype(to_type)*>(into.data),
                         static_cast<const decltype(from_type)*>(from.data), quotient, shard);
      });
    });
  });
}

void rearrange(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
               Stored into, ConstStored from) {
  with_storage(into.dtype, [&](auto type) {
    using T = decltype(type);
    rearrange_typed(ctx, elems, rows, row_elems, static_cast<T*>(into.data),
                    static_cast<const T*>(from.data));
  });
}

}  // namespace shardmark
