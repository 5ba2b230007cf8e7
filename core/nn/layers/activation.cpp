// SPDX-License-Identifier: Apache-2.0
#include <core/error.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/activation.hpp>

namespace shardmark {
namespace {

// The functions: their names in the labels of kernels, their values, and values with slopes.
struct GeluTanh {
  static constexpr const char* name = "gelu";
  KOKKOS_INLINE_FUNCTION float value(float x) const { return gelu_f32(x); }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const { return gelu_with_slope_f32(x); }
};
struct GeluExact {
  static constexpr const char* name = "gelu_exact";
  KOKKOS_INLINE_FUNCTION float value(float x) const { return x * share(x); }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    constexpr float density = 0.398942280401432678f;  // 1 / sqrt(2 pi)
    const float part = share(x);
    return {x * part, part + x * density * exp_f32(-0.5f * x * x)};
  }
  // The part of a normal distribution below x.
  KOKKOS_INLINE_FUNCTION static float share(float x) {
    return 0.5f * std::erfc(-x * 0.707106781186547524f);
  }
};
struct Relu {
  static constexpr const char* name = "relu";
  KOKKOS_INLINE_FUNCTION float value(float x) const { return x > 0 ? x : 0.0f; }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    return {value(x), x > 0 ? 1.0f : 0.0f};
  }
};
struct Silu {
  static constexpr const char* name = "swiglu";
  KOKKOS_INLINE_FUNCTION float value(float x) const { return x * logistic_f32(x).value; }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    const Logistic s = logistic_f32(x);
    const float silu = x * s.value;
    return {silu, s.value + silu * s.complement};
  }
};

template<class F>
void with_activation(Activation f, const F& use) {
  switch (f) {
    case Activation::gelu_tanh: return use(GeluTanh());
    case Activation::gelu: return use(GeluExact());
    case Activation::relu: return use(Relu());
    case Activation::silu: return use(Silu());
  }
  throw PlanError("model.mlp.activation: no such function");
}

template<class F>
std::string label(const char* pass) {
  return "shardmark::" + (F::name + std::string(pass));
}

template<class T, class F>
void alone_forward(const Context& ctx, F f, std::int64_t elems, const T* x, T* y) {
  kernel::for_each_elem(
      ctx, label<F>("_forward"), elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(y[i], f.value(widen(x[i]))); });
}

template<class T, class F>
void alone_backward(const Context& ctx, F f, std::int64_t elems, const T* x, T* y, T* d) {
  kernel::for_each_elem(
      ctx, label<F>("_backward"), elems, KOKKOS_LAMBDA(std::int64_t i) {
        const GeluValue g = f.with_slope(widen(x[i]));
        round_to(y[i], g.value);
        round_to(d[i], widen(d[i]) * g.slope);
      });
}

// One element of a gate, `at` in gate, up and their gradients, `i` in the others.
template<class T, class F>
struct Gate {
  F f;
  const T *gate, *up, *dy;
  T *y, *dgate, *dup;

  KOKKOS_INLINE_FUNCTION void forward(std::int64_t i, std::int64_t at) const {
    round_to(y[i], f.value(widen(gate[at])) * widen(up[at]));
  }
  KOKKOS_INLINE_FUNCTION void backward(std::int64_t i, std::int64_t at) const {
    const float d = widen(dy[i]), u = widen(up[at]);
    const GeluValue g = f.with_slope(widen(gate[at]));
    round_to(y[i], g.value * u);
    round_to(dup[at], d * g.value);
    round_to(dgate[at], d * u * g.slope);
  }
};

// Calls `f(i, at)` for all elements: at once if rows follow each other, else row by row.
template<class F>
void for_each_gate(const Context& ctx, const std::string& name, const GatedRows& size, const F& f) {
  if (size.stride == size.columns)
    return kernel::for_each_elem(
        ctx, name, size.rows * size.columns, KOKKOS_LAMBDA(std::int64_t i) { f(i, i); });
  const std::int64_t columns = size.columns, stride = size.stride;
  kernel::for_each_row(
      ctx, name, size.rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const F local = f;
        row.loop(columns, [&](std::int64_t j) { local(r * columns + j, r * stride + j); });
      });
}

}  // namespace

void activation_forward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                        Stored y) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(f, [&](auto g) { alone_forward(ctx, g, elems, x.as<T>(), y.as<T>()); });
  });
}

void activation_backward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                         Stored y, Stored d) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(
        f, [&](auto g) { alone_backward(ctx, g, elems, x.as<T>(), y.as<T>(), d.as<T>()); });
  });
}

void gated_forward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                   ConstStored up, Stored y) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(f, [&](auto g) {
      using F = decltype(g);
      const Gate<T, F> of{g, gate.as<T>(), up.as<T>(), nullptr, y.as<T>(), nullptr, nullptr};
      for_each_gate(
          ctx, label<F>("_forward"), size,
          KOKKOS_LAMBDA(std::int64_t i, std::int64_t at) { of.forward(i, at); });
    });
  });
}

void gated_backward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                    ConstStored up, ConstStored dy, Stored y, Stored dgate, Stored dup) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(f, [&](auto g) {
      using F = decltype(g);
      const Gate<T, F> of{g,         gate.as<T>(),  up.as<T>(), dy.as<T>(),
                          y.as<T>(), dgate.as<T>(), dup.as<T>()};
      for_each_gate(
          ctx, label<F>("_backward"), size,
          KOKKOS_LAMBDA(std::int64_t i, std::int64_t at) { of.backward(i, at); });
    });
  });
}

}  // namespace shardmark
