// SPDX-License-Identifier: Apache-2.0
// How the modules of a decoder list their work.
#pragma once

#include <core/plan/model/block_sizes.hpp>
#include <core/plan/work/work.hpp>

namespace shardmark {

/// A linear layer from `in` to `out` channels; `turned`: its weight is [in][out]. `count` layers of
/// that shape, or experts, have `rows` rows each.
struct LinearShape {
  std::int64_t rows, in, out;
  bool turned = false;
  std::int64_t count = 1;
};

/// Appends products and kernels of a model's type to a `Work`.
class WorkLists {
 public:
  WorkLists(Dtype dtype, Work& work) : dtype_(dtype), work_(work) {}

  void product(Product p) {
    if (p.m == 0 || p.n == 0 || p.k == 0) return without_terms(p);
    p.type = dtype_;
    p.part = part_;
    p.in_head = in_head_;
    work_.products.push_back(p);
  }
  /// The products of a linear layer (core/nn/products/linear.hpp): that of forward, and those of
  /// the gradients of its input and of its weight.
  void linear_forward(const LinearShape& s, Dtype c_type, bool accumulate = false) {
    product({.m = s.rows,
             .n = s.out,
             .k = s.in,
             .transpose_b = !s.turned,
             .accumulate = accumulate,
             .c_type = c_type,
             .count = s.count});
  }
  void linear_input(const LinearShape& s, Dtype c_type, bool accumulate = false) {
    product({.m = s.rows,
             .n = s.in,
             .k = s.out,
             .transpose_b = s.turned,
             .accumulate = accumulate,
             .c_type = c_type,
             .count = s.count});
  }
  void linear_weight(const LinearShape& s, bool accumulate) {
    product({.m = s.turned ? s.in : s.out,
             .n = s.turned ? s.out : s.in,
             .k = s.rows,
             .transpose_a = true,
             .accumulate = accumulate,
             .c_type = dtype_,
             .count = s.count});
  }
  /// A kernel that reads or writes `arrays` arrays of `elems` elements.
  void stream(std::string_view kernel, std::int64_t elems, std::int64_t width, double arrays) {
    const auto size = static_cast<double>(dtype_bytes(dtype_));
    typed(kernel, dtype_, elems, width, arrays * static_cast<double>(elems) * size, 1);
  }
  /// The kernel between the order of a joint product of q, k and v and that of attention, if they
  /// differ.
  void arrange_heads(const TransformerDims& d) {
    if (d.decoder->attention.qkv == QkvLayout::grouped)
      stream("arrange_heads", d.rows() * row_elems(d, Value::q), d.head_dim(), 2);
  }
  /// The kernels between what kv_b makes and the keys and values of latent attention.
  void spread_latent(const TransformerDims& d, bool rotates, bool backward) {
    const LatentSpec& latent = d.decoder->attention.latent;
    const auto rotate = [&](const char* kernel) {
      if (rotates) stream(kernel, d.rows() * latent.rotary_dim, latent.rotary_dim, 2);
    };
    if (!backward) rotate("rotary_forward");
    stream("arrange_heads", d.rows() * row_elems(d, Value::kv_b), d.head_dim(), 2);
    if (backward) rotate("rotary_backward");
  }
  /// `launches` launches of a kernel whose source may have another type.
  void typed(std::string_view kernel, Dtype source, std::int64_t elems, std::int64_t width,
             double bytes, std::int64_t launches) {
    work_.streams.push_back({.kernel = kernel,
                             .dtype = dtype_,
                             .source = source,
                             .elems = static_cast<double>(elems),
                             .width = static_cast<double>(width),
                             .bytes = bytes,
                             .launches = static_cast<double>(launches),
                             .in_attention = part_ != ProductPart::linear});
  }

 private:
  // A product that adds up nothing makes zeros (core/nn/products/linear.hpp).
  void without_terms(const Product& p) {
    const std::int64_t elems = p.accumulate ? 0 : p.m * p.n * p.count;
    typed("clear", p.c_type, elems, 1, static_cast<double>(elems * dtype_bytes(p.c_type)), 1);
  }

 protected:
  Dtype dtype_;
  Work& work_;
  ProductPart part_ = ProductPart::linear;
  bool in_head_ = false;
};

/// The label of an activation's kernel, by itself or as a gate.
std::string_view activation_kernel(Activation activation, bool backward);

/// Appends the work of a module of a mixture of experts whose layer has these dims. Experts are
/// taken to have equally many rows, as `balanced` routing makes them; `learned` routing has the
/// same work in total, in other shapes. `trained` says whether gradients of weights are made, and
/// `accumulate` that they are added.
void add_mixture_work(const TransformerDims& dims, Role role, bool backward, bool trained,
                      bool accumulate, Work& work);

/// Appends what comes before or after a pass of experts that ranks divide, as `kernel` says.
void add_exchange_work(const TransformerDims& dims, Kernel kernel, Work& work);

}  // namespace shardmark
