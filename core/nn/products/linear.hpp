// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer y[rows][out] = x[rows][in] W[out][in]^T (+ bias), or with
// weights that are stored as [in][out]. Both operands of a product have the same type; the result
// has that type or fp32. Sizes are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/error.hpp>
#include <core/nn/kernels/context.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/nn/products/matmul.hpp>

namespace shardmark {

/// The three products of one linear layer with `rows` rows. `gemm_scratch` is memory for the
/// product library, and `in_out` says that weights are [in][out]. Each size may be 0, where a
/// product has no elements or adds up nothing, which gives zeros.
class Linear {
 public:
  Linear(const Context& ctx, std::int64_t rows, std::span<std::byte> gemm_scratch,
         bool in_out = false)
      : ctx_(ctx), rows_(rows), in_out_(in_out), scratch_(gemm_scratch) {}

  /// y (+)= x W^T (+ bias; a bias with a null pointer is not added).
  void forward(std::int64_t in, std::int64_t out, ConstStored x, ConstStored weight,
               ConstStored bias, Stored y, bool accumulate = false) const {
    run({rows_, out, in, false, !in_out_, in, in_out_ ? out : in, out, accumulate,
         bias.data != nullptr},
        x, weight, y, bias);
  }
  /// y = x W^T + to in one product, where `to` is another matrix of y's shape and type. Returns
  /// false, and does nothing, where products cannot (MatMul::adds_elsewhere).
  bool forward_added(std::int64_t in, std::int64_t out, ConstStored x, ConstStored weight,
                     ConstStored to, Stored y) const {
    if (!MatMul::adds_elsewhere()) return false;
    run({rows_, out, in, false, !in_out_, in, in_out_ ? out : in, out, true}, x, weight, y, nullptr,
        to.data);
    return true;
  }
  /// dx (+)= dy W.
  void backward_input(std::int64_t in, std::int64_t out, ConstStored dy, ConstStored weight,
                      Stored dx, bool accumulate = false) const {
    run({rows_, in, out, false, in_out_, out, in_out_ ? out : in, in, accumulate}, dy, weight, dx,
        nullptr);
  }
  /// dW (+)= dy^T x. Nothing is done for a null pointer: the weight is frozen.
  void backward_weight(std::int64_t in, std::int64_t out, ConstStored dy, ConstStored x,
                       Stored dweight, bool accumulate) const {
    if (dweight.data == nullptr) return;
    if (in_out_)
      run({in, out, rows_, true, false, in, out, out, accumulate}, x, dy, dweight, nullptr);
    else
      run({out, in, rows_, true, false, out, in, in, accumulate}, dy, x, dweight, nullptr);
  }

 private:
  void run(MatMulShape shape, ConstStored a, ConstStored b, Stored c, ConstStored bias,
           const void* added = nullptr) const {
    shape.type = a.dtype;
    shape.c_type = c.dtype;
    if (shape.m == 0 || shape.n == 0) return;
    if (shape.k == 0) return without_terms(shape, c);
    ctx_.matmul(ctx_.space, shape, a.data, b.data, c.data, bias.data, scratch_, added);
    ctx_.progress();
  }
  // C of a product that adds up nothing: of a rank without heads, or an expert without rows.
  void without_terms(const MatMulShape& shape, Stored c) const {
    if (shape.bias) throw PlanError(to_string(shape) + ": has a bias and no inputs");
    if (!shape.accumulate) clear(ctx_, shape.m * shape.n * dtype_bytes(c.dtype), c.data);
  }

  const Context& ctx_;
  std::int64_t rows_;
  bool in_out_;
  std::span<std::byte> scratch_;
};

}  // namespace shardmark
