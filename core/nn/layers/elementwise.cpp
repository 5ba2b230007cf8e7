// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/elementwise.hpp>

namespace shardmark {
namespace {

template<class T>
void bias_residual_typed(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                         const T* bias, T* out, float factor) {
  kernel::for_each_row(
      ctx, "shardmark::bias_residual", rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * hidden, *b = bias;
        T* to = out + r * hidden;
        row.loop(hidden, [&](std::int64_t j) {
          round_to(to[j], widen(x_row[j]) + factor * (widen(to[j]) + widen(b[j])));
        });
      });
}

template<class T>
void residual_typed(const Context& ctx, std::int64_t elems, const T* x, T* out, float factor) {
  kernel::for_each_elem(
      ctx, "shardmark::residual", elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(out[i], widen(x[i]) + factor * widen(out[i])); });
}

template<class T>
void bias_backward_typed(const Context& ctx, std::int64_t rows, std::int64_t columns, const T* dy,
                         T* dbias, bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::bias_backward", columns, KOKKOS_LAMBDA(const kernel::Strip& strip) {
        strip.sum(rows, dbias, accumulate,
                  [=](std::int64_t r, std::int64_t j) { return widen(dy[r * columns + j]); });
      });
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
    residual_typed(ctx, elems, x.as<T>(), out.as<T>(), factor);
  });
}

void add_to(const Context& ctx, std::int64_t elems, ConstStored x, Stored out) {
  with_types(out, x, [&](auto type, auto x_type) {
    auto* to = out.as<decltype(type)>();
    const auto* from = x.as<decltype(x_type)>();
    kernel::for_each_elem(
        ctx, "shardmark::add_to", elems,
        KOKKOS_LAMBDA(std::int64_t i) { round_to(to[i], widen(to[i]) + widen(from[i])); });
  });
}

void scaled_copy(const Context& ctx, std::int64_t elems, ConstStored x, float factor, Stored out) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    T* to = out.as<T>();
    const T* from = x.as<T>();
    kernel::for_each_elem(
        ctx, "shardmark::scaled_copy", elems,
        KOKKOS_LAMBDA(std::int64_t i) { round_to(to[i], factor * widen(from[i])); });
  });
}

void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, ConstStored dy,
                   Stored dbias, bool accumulate) {
  with_storage(dy.dtype, [&](auto type) {
    using T = decltype(type);
    bias_backward_typed(ctx, rows, columns, dy.as<T>(), dbias.as<T>(), accumulate);
  });
}

}  // namespace shardmark
