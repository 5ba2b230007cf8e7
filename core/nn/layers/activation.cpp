// SPDX-License-Identifier: Apache-2.0
#include <core/error.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/activation.hpp>

namespace shardmark {
namespace {

// The functions: their names in the labels of kernels, their values, values with slopes, and what
// they multiply as gates.
struct PlainUp {
  KOKKOS_INLINE_FUNCTION float up(float u) const { return u; }
};
struct GeluTanh : PlainUp {
  static constexpr const char* name = "gelu";
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return gelu_f32(x); }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const { return gelu_with_slope_f32(x); }
};
struct GeluExact : PlainUp {
  static constexpr const char* name = "gelu_exact";
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x * share(x); }
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
struct Relu : PlainUp {
  static constexpr const char* name = "relu";
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x > 0 ? x : 0.0f; }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    return {(*this)(x), x > 0 ? 1.0f : 0.0f};
  }
};
struct Silu : PlainUp {
  static constexpr const char* name = "swiglu";
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return x * logistic_f32(x).value; }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    const Logistic s = logistic_f32(x);
    const float silu = x * s.value;
    return {silu, s.value + silu * s.complement};
  }
};

// The gate of gpt-oss.
struct LimitedSilu {
  static constexpr const char* name = "swiglu";
  UpRule up_rule;
  float gain;

  explicit LimitedSilu(const GateRule& rule) : up_rule(rule), gain(static_cast<float>(rule.gain)) {}
  KOKKOS_INLINE_FUNCTION float up(float u) const { return up_rule(u); }
  KOKKOS_INLINE_FUNCTION float operator()(float x) const {
    const float g = x > up_rule.limit ? up_rule.limit : x;
    return g * logistic_f32(gain * g).value;
  }
  KOKKOS_INLINE_FUNCTION GeluValue with_slope(float x) const {
    const float g = x > up_rule.limit ? up_rule.limit : x;
    const Logistic s = logistic_f32(gain * g);
    const float slope = s.value + gain * g * s.value * s.complement;
    return {g * s.value, x > up_rule.limit ? 0.0f : slope};
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
void with_gate(Activation f, const GateRule& rule, const F& use) {
  if (rule.plain()) return with_activation(f, use);
  use(LimitedSilu(rule));
}

template<class F>
std::string label(const char* pass) {
  return "shardmark::" + (F::name + std::string(pass));
}

using Values = float[kernel::run_elems];

/// y = f(x), d = d * f'(x).
template<class T, class F>
struct AloneBackward {
  F f;
  const T* x;
  T *y, *d;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const GeluValue g = f.with_slope(widen(x[i]));
    round_to(y[i], g.value);
    round_to(d[i], widen(d[i]) * g.slope);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    Values v, slope;
    kernel::load_run(x + at, n, v);
    kernel::load_run(d + at, n, slope);
    for (int j = 0; j < kernel::run_elems; ++j) {
      const GeluValue g = f.with_slope(v[j]);
      v[j] = g.value;
      slope[j] *= g.slope;
    }
    kernel::store_run(y + at, n, v);
    kernel::store_run(d + at, n, slope);
  }
};

/// y = f(gate) * up. An element or a run begins at `at` in gate and up, and at `i` in y.
template<class T, class F>
struct Gate {
  F f;
  const T *gate, *up;
  T* y;
  KOKKOS_INLINE_FUNCTION void element(std::int64_t i, std::int64_t at) const {
    round_to(y[i], f(widen(gate[at])) * f.up(widen(up[at])));
  }
  KOKKOS_INLINE_FUNCTION void run(std::int64_t i, std::int64_t at, int n) const {
    Values g, u;
    kernel::load_run(gate + at, n, g);
    kernel::load_run(up + at, n, u);
    for (int j = 0; j < kernel::run_elems; ++j) g[j] = f(g[j]) * f.up(u[j]);
    kernel::store_run(y + i, n, g);
  }
};

/// The gradients of gate and up, at `at`, from dy, at `i`; y is computed again.
template<class T, class F>
struct GateBackward {
  F f;
  const T *gate, *up, *dy;
  T *y, *dgate, *dup;
  KOKKOS_INLINE_FUNCTION void element(std::int64_t i, std::int64_t at) const {
    const float d = widen(dy[i]), u = f.up(widen(up[at]));
    const GeluValue g = f.with_slope(widen(gate[at]));
    round_to(y[i], g.value * u);
    round_to(dup[at], d * g.value);
    round_to(dgate[at], d * u * g.slope);
  }
  KOKKOS_INLINE_FUNCTION void run(std::int64_t i, std::int64_t at, int n) const {
    Values g, u, d;
    kernel::load_run(gate + at, n, g);
    kernel::load_run(up + at, n, u);
    kernel::load_run(dy + i, n, d);
    for (int j = 0; j < kernel::run_elems; ++j) {
      const GeluValue of = f.with_slope(g[j]);
      const float dy_j = d[j], up_j = f.up(u[j]);
      d[j] = dy_j * up_j * of.slope;
      g[j] = of.value * up_j;
      u[j] = dy_j * of.value;
    }
    kernel::store_run(y + i, n, g);
    kernel::store_run(dup + at, n, u);
    kernel::store_run(dgate + at, n, d);
  }
};

/// A gate whose rows follow each other, as one array.
template<class G>
struct WholeGate {
  G gate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { gate.element(i, i); }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const { gate.run(at, at, n); }
};

template<class G>
KOKKOS_INLINE_FUNCTION void gate_row(const kernel::ThreadRow& row, const GatedRows& size,
                                     std::int64_t r, const G& gate) {
  const G local = gate;
  row.loop(size.columns, [&](std::int64_t j) {
    local.element(r * size.columns + j, r * size.stride + j * size.step);
  });
}
template<class G>
KOKKOS_INLINE_FUNCTION void gate_row(const kernel::WarpRow& row, const GatedRows& size,
                                     std::int64_t r, const G& gate) {
  if (size.step != 1)
    return row.loop(size.columns, [&](std::int64_t j) {
      gate.element(r * size.columns + j, r * size.stride + j * size.step);
    });
  row.runs(size.columns,
           [&](std::int64_t j, int n) { gate.run(r * size.columns + j, r * size.stride + j, n); });
}

// Works through all elements: at once if rows follow each other, else row by row.
template<class G>
void for_each_gate(const Context& ctx, const std::string& name, const GatedRows& size,
                   const G& gate) {
  if (size.stride == size.columns)
    return kernel::for_each_value(ctx, name, size.rows * size.columns, WholeGate<G>{gate});
  kernel::for_each_row(
      ctx, name, size.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) { gate_row(row, size, r, gate); });
}

}  // namespace

void activation_forward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                        Stored y) {
  with_elements(
      [&](auto* from, auto* to) {
        with_activation(f, [&](auto g) {
          kernel::map_values(ctx, label<decltype(g)>("_forward"), elems, to, g, from);
        });
      },
      x, y);
}

void activation_backward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                         Stored y, Stored d) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(f, [&](auto g) {
      using F = decltype(g);
      kernel::for_each_value(ctx, label<F>("_backward"), elems,
                             AloneBackward<T, F>{g, x.as<T>(), y.as<T>(), d.as<T>()});
    });
  });
}

void gated_forward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                   ConstStored up, Stored y, const GateRule& rule) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    with_gate(f, rule, [&](auto g) {
      using F = decltype(g);
      for_each_gate(ctx, label<F>("_forward"), size,
                    Gate<T, F>{g, gate.as<T>(), up.as<T>(), y.as<T>()});
    });
  });
}

void gated_backward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                    ConstStored up, ConstStored dy, Stored y, Stored dgate, Stored dup,
                    const GateRule& rule) {
  with_storage(gate.dtype, [&](auto type) {
    using T = decltype(type);
    with_gate(f, rule, [&](auto g) {
      using F = decltype(g);
      for_each_gate(ctx, label<F>("_backward"), size,
                    GateBackward<T, F>{g, gate.as<T>(), up.as<T>(), dy.as<T>(), y.as<T>(),
                                       dgate.as<T>(), dup.as<T>()});
    });
  });
}

}  // namespace shardmark
