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

constexpr std::int64_t piece = 8192;  // elements of one row of a kernel

// What is done to a value before it is stored: nothing, or a division; of a power of two the
// reciprocal gives the same bits, several times as fast.
struct AsItIs {
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x; }
};
struct Times {
  float factor;
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x * factor; }
};
struct Over {
  float by;
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x / by; }
};

template<class F>
void with_quotient(double divisor, const F& f) {
  const auto by = static_cast<float>(divisor);
  int exponent = 0;
  if (by == 1.0f) return f(AsItIs{});
  if (std::frexp(by, &exponent) == 0.5f) return f(Times{1.0f / by});
  f(Over{by});
}

// A quotient is rounded in the type of what is divided.
template<class To, class From, class Quotient>
KOKKOS_INLINE_FUNCTION void put(To& to, const From& from, const Quotient& quotient) {
  constexpr bool same = std::is_same_v<To, From>, divides = !std::is_same_v<Quotient, AsItIs>;
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

// A thread's part of a large result, made of `from` past the caches.
template<class To, class From, class Quotient>
void stream_part(std::int64_t count, To* to, const From* from, const Quotient& quotient) {
  if constexpr (std::is_same_v<To, From> && std::is_same_v<Quotient, AsItIs>) {
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

// Norms travel as fp32 or fp64.
void convert_double(const Context& ctx, std::int64_t elems, Stored to, ConstStored from) {
  const Dtype other = to.dtype == Dtype::fp64 ? from.dtype : to.dtype;
  if (other == Dtype::fp64)
    return convert_typed(ctx, elems, static_cast<double*>(to.data),
                         static_cast<const double*>(from.data), AsItIs{});
  if (other != Dtype::fp32)
    throw PlanError("convert: fp64 and " + std::string(to_string(other)) +
                    ": must be fp64 and fp32: go through fp32");
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

// A kernel lies in a function template of its own: nvcc takes none inside a generic lambda.
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

// Many rows may store, but all the same.
template<class T>
void find_not_finite(const Context& ctx, std::int64_t elems, const T* s, std::uint8_t* flag) {
  kernel::for_each_row(
      ctx, "shardmark::flag_not_finite", (elems + piece - 1) / piece,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const T* part = s + p * piece;
        const std::int64_t rest = elems - p * piece;
        const int found = row.sum<int>(rest < piece ? rest : piece, [&](std::int64_t i) {
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

// Calls `f(row, r, begin, count)` for the pieces of `rows` rows of `row_elems`: there are as many
// rows as ranks, few for a GPU.
template<class F>
void for_each_piece(const Context& ctx, const char* label, int rows, std::int64_t row_elems,
                    const F& f) {
  const std::int64_t pieces = (row_elems + piece - 1) / piece;
  kernel::for_each_row(
      ctx, label, rows * pieces, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t p) {
        const std::int64_t begin = p % pieces * piece, rest = row_elems - begin;
        f(row, p / pieces, begin, rest < piece ? rest : piece);
      });
}

// A row's piece.
template<class T, class Quotient>
KOKKOS_INLINE_FUNCTION void place(const kernel::Row& row, std::int64_t count, T* to, const T* from,
                                  const Quotient& quotient, [[maybe_unused]] bool streams) {
  if constexpr (!kernel::rows_are_warps)
    if (streams) return stream_part(count, to, from, quotient);
  const Quotient q = quotient;
  row.loop(count, [&](std::int64_t i) { put(to[i], from[i], q); });
}

template<class T, class Quotient>
void interleave_typed(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems,
                      T* d, const T* s, const Quotient& quotient) {
  const std::int64_t shard = (elems + rows - 1) / rows;
  const bool streams = kernel::worth_streaming<T>(elems);
  for_each_piece(
      ctx, "shardmark::interleave", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        const std::int64_t first = r * shard + begin;
        const std::int64_t rest = elems - first;
        const std::int64_t real = rest < 0 ? 0 : rest < count ? rest : count;
        T* to = d + r * row_elems + begin;
        place(row, real, to, s + first, quotient, streams);
        T* padding = to + real;
        row.loop(count - real, [&](std::int64_t i) { padding[i] = T{}; });
      });
}

template<class T>
void rearrange_typed(const Context& ctx, std::int64_t elems, int rows, std::int64_t row_elems, T* d,
                     const T* s) {
  const std::int64_t shard = elems / rows;
  const bool streams = kernel::worth_streaming<T>(elems);
  for_each_piece(
      ctx, "shardmark::rearrange", rows, shard,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r, std::int64_t begin,
                    std::int64_t count) {
        place(row, count, d + r * shard + begin, s + r * row_elems + begin, AsItIs{}, streams);
      });
}

}  // namespace

void convert(const Context& ctx, std::int64_t elems, Stored to, ConstStored from, double divisor) {
  if (to.dtype == Dtype::fp64 || from.dtype == Dtype::fp64) {
    if (divisor != 1) throw PlanError("convert: fp64 is not divided on the way: use divide");
    return convert_double(ctx, elems, to, from);
  }
  with_storage(to.dtype, [&](auto to_type) {
    using To = decltype(to_type);
    with_storage(from.dtype, [&](auto from_type) {
      using From = decltype(from_type);
      with_quotient(divisor, [&](const auto& quotient) {
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
        ctx, "shardmark::divide_fp64", elems, KOKKOS_LAMBDA(std::int64_t i) { d[i] /= divisor; });
    return;
  }
  with_quotient(divisor, [&](const auto& quotient) {
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
                Stored into, ConstStored from, double divisor) {
  with_storage(into.dtype, [&](auto type) {
    using T = decltype(type);
    with_quotient(divisor, [&](const auto& quotient) {
      interleave_typed(ctx, elems, rows, row_elems, static_cast<T*>(into.data),
                       static_cast<const T*>(from.data), quotient);
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
