// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/elementwise.hpp>

namespace shardmark {
namespace {

// out = x + factor * (out + bias), for one row.
template<class T>
KOKKOS_INLINE_FUNCTION void bias_residual_row(const kernel::ThreadRow& row, std::int64_t hidden,
                                              const T* x, const T* bias, T* out, float factor) {
  row.loop(hidden, [&](std::int64_t j) {
    round_to(out[j], widen(x[j]) + factor * (widen(out[j]) + widen(bias[j])));
  });
}
template<class T>
KOKKOS_INLINE_FUNCTION void bias_residual_row(const kernel::WarpRow& row, std::int64_t hidden,
                                              const T* x, const T* bias, T* out, float factor) {
  row.runs(hidden, [&](std::int64_t j, int n) {
    float a[kernel::run_elems], b[kernel::run_elems], to[kernel::run_elems];
    kernel::load_run(x + j, n, a);
    kernel::load_run(bias + j, n, b);
    kernel::load_run(out + j, n, to);
    for (int i = 0; i < kernel::run_elems; ++i) to[i] = a[i] + factor * (to[i] + b[i]);
    kernel::store_run(out + j, n, to);
  });
}

template<class T>
void bias_residual_typed(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                         const T* bias, T* out, float factor) {
  kernel::for_each_row(
      ctx, "shardmark::bias_residual", rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        bias_residual_row(row, hidden, x + r * hidden, bias, out + r * hidden, factor);
      });
}

using Values = float[kernel::run_elems];

/// out = x + factor * out.
template<class T>
struct Residual {
  const T* x;
  T* out;
  float factor;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    round_to(out[i], widen(x[i]) + factor * widen(out[i]));
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    Values a, b;
    kernel::load_run(x + at, n, a);
    kernel::load_run(out + at, n, b);
    for (int j = 0; j < kernel::run_elems; ++j) b[j] = a[j] + factor * b[j];
    kernel::store_run(out + at, n, b);
  }
};

/// to = to + from.
template<class T, class X>
struct AddTo {
  const X* from;
  T* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    round_to(to[i], widen(to[i]) + widen(from[i]));
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    Values a, b;
    kernel::load_run(from + at, n, a);
    kernel::load_run(to + at, n, b);
    for (int j = 0; j < kernel::run_elems; ++j) b[j] += a[j];
    kernel::store_run(to + at, n, b);
  }
};

/// to = factor * from.
template<class T>
struct ScaledCopy {
  const T* from;
  T* to;
  float factor;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    round_to(to[i], factor * widen(from[i]));
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    Values v;
    kernel::load_run(from + at, n, v);
    for (float& value : v) value *= factor;
    kernel::store_run(to + at, n, v);
  }
};

template<class T, class B>
void bias_backward_typed(const Context& ctx, std::int64_t rows, std::int64_t columns, const T* dy,
                         B* dbias, bool accumulate) {
  const kernel::Elements<T> terms{dy, columns};
  kernel::for_each_strip(
      ctx, "shardmark::bias_backward", columns,
      KOKKOS_LAMBDA(const kernel::Strip& strip) { strip.sum(rows, dbias, accumulate, terms); });
}

}  // namespace

void bias_residual(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                   ConstStored bias, Stored out, float factor) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    bias_residual_typed(ctx, rows, hidden, x.as<T>(), bias.as<T>(), out.as<T>(), factor);
  });
}

void residual(const Context& ctx, std::int64_t elems, ConstStored x, Stored out, float factor) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    kernel::for_each_value(ctx, "shardmark::residual", elems,
                           Residual<T>{x.as<T>(), out.as<T>(), factor});
  });
}

void add_to(const Context& ctx, std::int64_t elems, ConstStored x, Stored out) {
  with_types(out, x, [&](auto type, auto x_type) {
    using T = decltype(type);
    using X = decltype(x_type);
    kernel::for_each_value(ctx, "shardmark::add_to", elems, AddTo<T, X>{x.as<X>(), out.as<T>()});
  });
}

void scaled_copy(const Context& ctx, std::int64_t elems, ConstStored x, float factor, Stored out) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    kernel::for_each_value(ctx, "shardmark::scaled_copy", elems,
                           ScaledCopy<T>{x.as<T>(), out.as<T>(), factor});
  });
}

void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, ConstStored dy,
                   Stored dbias, bool accumulate) {
  with_types(dbias, dy, [&](auto type, auto dy_type) {
    using B = decltype(type);
    using T = decltype(dy_type);
    bias_backward_typed(ctx, rows, columns, dy.as<T>(), dbias.as<B>(), accumulate);
  });
}

}  // namespace shardmark
