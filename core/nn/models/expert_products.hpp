// SPDX-License-Identifier: Apache-2.0
// The products of experts whose rows are sorted by expert, one expert after another.
#pragma once

#include <vector>

#include <core/nn/models/module_call.hpp>
#include <core/read_back.hpp>

namespace shardmark {

/// Copies `count` integers from a kernel's memory.
inline std::vector<std::int32_t> on_host(const Context& ctx, const std::int32_t* values,
                                         std::int64_t count) {
  std::vector<std::int32_t> copies(static_cast<std::size_t>(count));
  copy_to_host(ctx.space, copies.data(), values, copies.size() * sizeof copies[0]);
  return copies;
}

/// The tensors of one product of all experts, [experts][out][in] and [experts][out], and their
/// gradients. Null pointers stand for a bias that experts do not have and for frozen tensors.
struct ExpertTensors {
  std::int64_t in, out;
  ConstStored weight, bias;
  Stored dweight, dbias;
};

/// The products of experts one after another, each with its rows.
class ExpertProducts {
 public:
  /// `starts` has the first row of each expert and, at its end, the number of rows.
  ExpertProducts(const BlockCall& call, std::vector<std::int32_t> starts)
      : c_(call), gemm_(call.scratch().gemm()), starts_(std::move(starts)) {}

  std::int64_t rows() const { return starts_.back(); }
  std::int64_t rows_of(std::size_t expert) const { return starts_[expert + 1] - starts_[expert]; }

  /// y = x W^T (+ bias).
  void forward(const ExpertTensors& p, ConstStored x, Stored y) const {
    for_each([&](const Rows& e) {
      e.product.forward(p.in, p.out, x.at(e.first * p.in), p.weight.at(e.expert * p.in * p.out),
                        bias_at(p.bias, e.expert * p.out), y.at(e.first * p.out));
    });
  }
  /// dx (+)= dy W.
  void backward_input(const ExpertTensors& p, ConstStored dy, Stored dx, bool add = false) const {
    for_each([&](const Rows& e) {
      e.product.backward_input(p.in, p.out, dy.at(e.first * p.out),
                               p.weight.at(e.expert * p.in * p.out), dx.at(e.first * p.in), add);
    });
  }
  /// dW (+)= dy^T x. An expert without rows has a gradient of zeros.
  void backward_weight(const ExpertTensors& p, ConstStored dy, ConstStored x) const {
    if (p.dweight.data == nullptr) return;
    for_each([&](const Rows& e) {
      e.product.backward_weight(p.in, p.out, dy.at(e.first * p.out), x.at(e.first * p.in),
                                p.dweight.at(e.expert * p.in * p.out), c_.g.accumulate);
    });
  }
  void backward_bias(const ExpertTensors& p, ConstStored dy) const {
    if (p.dbias.data == nullptr) return;
    for_each([&](const Rows& e) {
      bias_backward(c_.ctx, e.count, p.out, dy.at(e.first * p.out), p.dbias.at(e.expert * p.out),
                    c_.g.accumulate);
    });
  }

 private:
  // The rows of one expert, `count` of them from row `first` on.
  struct Rows {
    std::int64_t expert, first, count;
    Linear product;
  };
  // Calls `f(Rows)` for each expert, also for those without rows.
  template<class F>
  void for_each(const F& f) const {
    for (std::size_t e = 0; e + 1 < starts_.size(); ++e)
      f(Rows{static_cast<std::int64_t>(e), starts_[e], rows_of(e),
             Linear(c_.ctx, rows_of(e), gemm_, c_.decoder.moe.in_out)});
  }

  const BlockCall& c_;
  const std::span<std::byte> gemm_;
  const std::vector<std::int32_t> starts_;
};

}  // namespace shardmark
