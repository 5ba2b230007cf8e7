// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/elementwise.hpp>

namespace shardmark {
namespace {

template<class T>
void bias_residual_typed(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                         const T* bias, T* out) {
  kernel::for_each_row(
      ctx, "shardmark::bias_residual", rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * hidden, *b = bias;
        T* to = out + r * hidden;
        row.loop(hidden, [&](std::int64_t j) {
          round_to(to[j], widen(x_row[j]) + (widen(to[j]) + widen(b[j])));
        });
      });
}

template<class T>
void residual_typed(const Context& ctx, std::int64_t elems, const T* x, T* out) {
  kernel::for_each_elem(
      ctx, "shardmark::residual", elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(out[i], widen(x[i]) + widen(out[i])); });
}

template<class T>
void gelu_forward_typed(const Context& ctx, std::int64_t elems, const T* x, T* y) {
  kernel::for_each_elem(
      ctx, "shardmark::gelu_forward", elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(y[i], gelu_f32(widen(x[i]))); });
}

template<class T>
void gelu_backward_typed(const Context& ctx, std::int64_t elems, const T* x, T* y, T* d) {
  kernel::for_each_elem(
      ctx, "shardmark::gelu_backward", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const GeluValue g = gelu_with_slope_f32(widen(x[i]));
        round_to(y[i], g.value);
        round_to(d[i], widen(d[i]) * g.slope);
      });
}

template<class T>
void swiglu_forward_typed(const Context& ctx, std::int64_t elems, const T* gate, const T* up,
                          T* y) {
  kernel::for_each_elem(
      ctx, "shardmark::swiglu_forward", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const float x = widen(gate[i]);
        round_to(y[i], x * logistic_f32(x).value * widen(up[i]));
      });
}

template<class T>
void swiglu_backward_typed(const Context& ctx, std::int64_t elems, const T* gate, const T* up, T* y,
                           T* dgate, T* dup) {
  kernel::for_each_elem(
      ctx, "shardmark::swiglu_backward", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const float x = widen(gate[i]), dy = widen(dgate[i]), u = widen(up[i]);
        const Logistic s = logistic_f32(x);
        const float silu = x * s.value;
        round_to(y[i], silu * u);
        round_to(dup[i], dy * silu);
        round_to(dgate[i], dy * u * (s.value + silu * s.complement));
      });
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
                   ConstStored bias, Stored out) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    bias_residual_typed(ctx, rows, hidden, x.as<T>(), bias.as<T>(), out.as<T>());
  });
}

void residual(const Context& ctx, std::int64_t elems, ConstStored x, Stored out) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    residual_typed(ctx, elems, x.as<T>(), out.as<T>());
  });
}

void gelu_forward(const Context& ctx, std::int64_t elems, ConstStored x, Stored y) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    gelu_forward_typed(ctx, elems, x.as<T>(), y.as<T>());
  });
}

void gelu_backward(const Context& ctx, std::int64_t elems, ConstStored x, Stored y, Stored d) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    gelu_backward_typed(ctx, elems, x.as<T>(), y.as<T>(), d.as<T>());
  });
}

void swiglu_forward(const Context& ctx, std::int64_t elems, ConstStored gate, ConstStored up,
                    Stored y) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    swiglu_forward_typed(ctx, elems, gate.as<T>(), up.as<T>(), y.as<T>());
  });
}

void swiglu_backward(const Context& ctx, std::int64_t elems, ConstStored gate, ConstStored up,
                     Stored y, Stored dgate, Stored dup) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    swiglu_backward_typed(ctx, elems, gate.as<T>(), up.as<T>(), y.as<T>(), dgate.as<T>(),
                          dup.as<T>());
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
