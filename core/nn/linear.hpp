// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer y[rows][out] = x[rows][in] W[out][in]^T (+ bias).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/nn/context.hpp>
#include <core/nn/matmul.hpp>

namespace shardmark {

class Linear {
 public:
  Linear(const Context& ctx, std::int64_t rows, std::span<std::byte> gemm_scratch)
      : ctx_(ctx), rows_(rows), scratch_(gemm_scratch) {}

  /// y = x W^T (+ bias, null: none). `ld_y` 0: y's rows are `out` apart.
  void forward(std::int64_t in, std::int64_t out, const float* x, const float* weight,
               const float* bias, float* y, std::int64_t ld_y = 0) const {
    run({rows_, out, in, false, true, in, in, ld_y == 0 ? out : ld_y, false, bias != nullptr}, x,
        weight, y, bias);
  }
  /// dx (+)= dy W.
  void backward_input(std::int64_t in, std::int64_t out, const float* dy, const float* weight,
                      float* dx, bool accumulate = false, std::int64_t ld_dy = 0) const {
    run({rows_, in, out, false, false, ld_dy == 0 ? out : ld_dy, in, in, accumulate}, dy, weight,
        dx, nullptr);
  }
  /// dW (+)= dy^T x.
  void backward_weight(std::int64_t in, std::int64_t out, const float* dy, const float* x,
                       float* dweight, bool accumulate, std::int64_t ld_dy = 0) const {
    run({out, in, rows_, true, false, ld_dy == 0 ? out : ld_dy, in, in, accumulate}, dy, x, dweight,
        nullptr);
  }

 private:
  void run(const MatMulShape& shape, const float* a, const float* b, float* c,
           const float* bias) const {
    ctx_.matmul(ctx_.space, shape, a, b, c, bias, scratch_);
    ctx_.progress();
  }

  const Context& ctx_;
  std::int64_t rows_;
  std::span<std::byte> scratch_;
};

}  // namespace shardmark
