// SPDX-License-Identifier: Apache-2.0
// The norms of a decoder, whichever kind its description names.
#pragma once

#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/layer_norm.hpp>
#include <core/nn/layers/rms_norm.hpp>
#include <core/plan/deck/decoder.hpp>

namespace shardmark {

/// A norm over `rows` rows of `columns` elements. Forward writes the figures of the rows: `rstd`,
/// and `mean` for LayerNorm. With `x_stride` the rows of x and of its gradient are parts of wider
/// rows, which only RMSNorm can have.
struct Norm {
  const Context& ctx;
  NormSpec spec;
  std::int64_t rows, columns;
  float *mean, *rstd;
  std::int64_t x_stride = 0;

  bool centred() const { return spec.kind == NormKind::layer; }
  NormRule rule() const { return {static_cast<float>(spec.eps), spec.unit_offset ? 1.0f : 0.0f}; }
  /// y = norm(x).
  void forward(ConstStored weight, ConstStored bias, ConstStored x, Stored y) const {
    if (centred())
      layer_norm_forward(ctx, rows, columns, x, weight, bias, y, mean, rstd, rule());
    else
      rms_norm_forward(ctx, rows, columns, x, weight, y, rstd, rule(), x_stride);
  }
  /// Writes, or adds, the gradients of weight and bias. Must come before input_gradient if dx there
  /// is dy.
  void param_gradients(ConstStored x, ConstStored dy, Stored dweight, Stored dbias,
                       bool accumulate) const {
    if (dweight.data == nullptr && dbias.data == nullptr) return;
    if (dweight.data == nullptr) return bias_backward(ctx, rows, columns, dy, dbias, accumulate);
    if (centred())
      layer_norm_backward_params(ctx, rows, columns, x, mean, rstd, dy, dweight, dbias, accumulate);
    else
      rms_norm_backward_params(ctx, rows, columns, x, rstd, dy, dweight, accumulate, x_stride);
  }
  /// Writes, or adds, the gradient of x. dx may be dy.
  void input_gradient(ConstStored weight, ConstStored x, ConstStored dy, Stored dx,
                      bool add) const {
    if (centred())
      layer_norm_input_gradient(ctx, rows, columns, x, mean, rstd, weight, dy, dx, add, rule());
    else
      rms_norm_input_gradient(ctx, rows, columns, x, rstd, weight, dy, dx, add, rule(), x_stride);
  }
  /// Both. A GPU makes them in one pass if `scratch` has room for its sums.
  void gradients(ConstStored weight, ConstStored x, ConstStored dy, Stored dx, bool add,
                 Stored dweight, Stored dbias, bool accumulate,
                 std::span<std::byte> scratch) const {
    if (!centred() && x_stride == 0 && dweight.data != nullptr &&
        rms_norm_gradients(ctx, rows, columns, x, rstd, weight, dy, dx, add, dweight, accumulate,
                           scratch, rule()))
      return;
    param_gradients(x, dy, dweight, dbias, accumulate);
    input_gradient(weight, x, dy, dx, add);
  }
};

}  // namespace shardmark
