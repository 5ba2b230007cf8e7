// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/elementwise.hpp>

namespace shardmark {
namespace {

struct BiasResidual {
  float factor;
  KOKKOS_INLINE_FUNCTION float operator()(float x, float bias, float out) const {
    return x + factor * (out + bias);
  }
};
struct Residual {
  float factor;
  KOKKOS_INLINE_FUNCTION float operator()(float x, float out) const { return x + factor * out; }
};
struct Sum {
  KOKKOS_INLINE_FUNCTION float operator()(float a, float b) const { return a + b; }
};
struct Scaled {
  float factor;
  KOKKOS_INLINE_FUNCTION float operator()(float x) const { return factor * x; }
};

template<class T>
void bias_residual_typed(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                         const T* bias, T* out, float factor) {
  const BiasResidual f{factor};
  kernel::for_each_row(
      ctx, "shardmark::bias_residual", rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        row.map(hidden, out + r * hidden, f, x + r * hidden, bias, out + r * hidden);
      });
}

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
  with_elements([&](auto*... data) { bias_residual_typed(ctx, rows, hidden, data..., factor); }, x,
                bias, out);
}

void residual(const Context& ctx, std::int64_t elems, ConstStored x, Stored out, float factor) {
  with_elements(
      [&](auto* from, auto* to) {
        kernel::map_values(ctx, "shardmark::residual", elems, to, Residual{factor}, from, to);
      },
      x, out);
}

void add_to(const Context& ctx, std::int64_t elems, ConstStored x, Stored out) {
  with_elements_and_sums(
      [&](auto* from, auto* to) {
        kernel::map_values(ctx, "shardmark::add_to", elems, to, Sum(), to, from);
      },
      x, out);
}

void scaled_copy(const Context& ctx, std::int64_t elems, ConstStored x, float factor, Stored out) {
  with_elements(
      [&](auto* from, auto* to) {
        kernel::map_values(ctx, "shardmark::scaled_copy", elems, to, Scaled{factor}, from);
      },
      x, out);
}

void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, ConstStored dy,
                   Stored dbias, bool accumulate) {
  with_elements_and_sums(
      [&](auto*... data) { bias_backward_typed(ctx, rows, columns, data..., accumulate); }, dy,
      dbias);
}

}  // namespace shardmark
