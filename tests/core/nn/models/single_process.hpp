// SPDX-License-Identifier: Apache-2.0
// A test fixture that runs a transformer in one process with calls of core/nn alone: the buffers of
// every unit, one forward and backward, clipping and AdamW. It does by hand what the executor does
// from a plan.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/models/transformer.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/nn/optimizer/updates.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <core/random.hpp>

namespace shardmark::test {

/// The fixture of tests that launch kernels.
struct KernelTest : ::testing::Test {
  MatMul matmul{0};
  Context ctx{Space(), matmul};
};

/// Whether a kernel may use the memory of any buffer.
inline bool buffers_in_use = false;

/// The memory of one buffer, filled with a pattern on which no result may depend. On a GPU it is
/// pinned memory, which kernels and tests both reach, and the host waits for the kernels where it
/// asks for the memory or reads an element.
template<class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t elems)
      : view_(Kokkos::view_alloc(Kokkos::WithoutInitializing, "test"),
              static_cast<std::size_t>(elems)) {
    std::memset(static_cast<void*>(view_.data()), 0x7F,
                static_cast<std::size_t>(elems) * sizeof(T));
  }
  T* data() const {
    wait();
    buffers_in_use = !device_is_host;  // perhaps by a kernel that the caller launches next
    return view_.data();
  }
  T& operator[](std::int64_t i) const {
    wait();
    return view_.data()[i];
  }
  std::int64_t size() const { return static_cast<std::int64_t>(view_.size()); }

 private:
  static void wait() {
    if constexpr (!device_is_host)
      if (std::exchange(buffers_in_use, false)) Kokkos::fence();
  }

  Kokkos::View<T*, PinnedMemory> view_;
};

/// One number that kernels read.
class Number {
 public:
  explicit Number(double value) : buffer_(1) { buffer_[0] = value; }
  const double* data() const { return buffer_.data(); }

 private:
  Buffer<double> buffer_;
};

/// T is the storage type of parameters, gradients and activations. 16-bit parameters have an fp32
/// master, and their gradients are fp32 for the update.
template<class T>
class SingleProcessOf {
 public:
  static constexpr std::int64_t cap_bytes = std::int64_t{16} << 20;
  static constexpr bool has_master = !std::is_same_v<T, float>;

  SingleProcessOf(const ModelSpec& spec, std::int64_t micro_batch, std::uint64_t seed,
                  Bf16Products bf16 = Bf16Products::widened)
      : shape(build_model_shape(spec)),
        dims(dims_of_layer(transformer_dims(spec, micro_batch, storage_of<T>), 0)),
        matmul(cap_bytes, bf16),
        tokens(micro_batch * (spec.sequence + 1)),
        dx(dims.rows() * dims.hidden),
        balance(balance_elems(dims, dims.layers)),
        workspace(largest_workspace()) {
    for (const Unit& unit : shape.units) {
      param.emplace_back(unit.elems);
      grad.emplace_back(unit.elems);
      master.emplace_back(has_master ? unit.elems : 0);
      grad32.emplace_back(has_master ? unit.elems : 0);
      momentum.emplace_back(unit.elems);
      variance.emplace_back(unit.elems);
      x_in.emplace_back(dims.rows() * dims.hidden);
      saved.emplace_back(saved_elems(dims, unit.kind));
      std::memset(momentum.back().data(), 0, sizeof(float) * unit.elems);
      std::memset(variance.back().data(), 0, sizeof(float) * unit.elems);
    }
    for (std::size_t t = 0; t < shape.params.size(); ++t) {
      const Param& p = shape.params[t];
      init_param(ctx, stored(values(t, param)), p.elems, 0, static_cast<std::int64_t>(t), p.init,
                 p.std, seed);
    }
    if (!has_master) return;
    for (std::size_t u = 0; u < param.size(); ++u)
      convert(ctx, param[u].size(), master[u].data(), stored(param[u].data()));
  }

  static Stored stored(T* data) { return {storage_of<T>, data}; }

  /// Returns the part of the given states (param, grad, …) that belongs to a parameter.
  template<class U>
  U* values(std::size_t t, const std::vector<Buffer<U>>& states) const {
    const Param& p = shape.params[t];
    return states[p.unit].data() + (p.first_elem - shape.units[p.unit].first_elem);
  }

  void uniform_tokens(std::uint64_t seed, std::int64_t step, std::int64_t first_sample = 0) {
    const std::int64_t row = dims.sequence + 1;
    for (std::int64_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(mix(seed, 1'000'000 + step, first_sample * row + i) %
                                            dims.vocab);
  }

  void forward(bool first = true, float grad_scale = 1) {
    for (int m : shape.computing(VisitKind::pre_forward)) {
      TransformerBuffers b = buffers(m, Kernel::forward);
      b.first_loss = first;
      b.grad_scale = grad_scale;
      const auto params = tensors(m, param);
      transformer_forward(ctx, dims, shape.modules[m].role, params.data(), b);
    }
  }

  void backward(bool accumulate = false) {
    for (int m : shape.computing(VisitKind::pre_backward)) {
      const bool second = shape.modules[m].role == Role::token_embedding && shape.spec.tied_head;
      const auto params = tensors(m, param), grads = tensors(m, grad);
      transformer_backward(ctx, dims, shape.modules[m].role, params.data(), grads.data(),
                           accumulate || second, buffers(m, Kernel::backward));
    }
  }

  void update(const AdamWStep& step, double clipping, double loss_scale = 1) {
    for (std::size_t u = 0; u < grad.size(); ++u)
      sum_squares(ctx, grad[u].size(), stored(grad[u].data()), sum.data(), u == 0);
    clip_from_sum(ctx, sum.data(), {clipping, loss_scale}, clip.data());
    for (std::size_t u = 0; u < grad.size(); ++u) {
      float *weights = nullptr, *gradient = nullptr;
      if constexpr (has_master) {
        weights = master[u].data(), gradient = grad32[u].data();
        convert(ctx, grad[u].size(), gradient, stored(grad[u].data()));
      } else {
        weights = param[u].data(), gradient = grad[u].data();
      }
      adamw_update(ctx, grad[u].size(), weights, gradient, momentum[u].data(), variance[u].data(),
                   step, clip.data() + 1);
      if constexpr (has_master)
        convert(ctx, grad[u].size(), stored(param[u].data()), master[u].data());
    }
  }

  template<class U>
  double norm(std::size_t t, const std::vector<Buffer<U>>& states) const {
    double squares = 0;
    const U* v = values(t, states);
    for (std::int64_t i = 0; i < shape.params[t].elems; ++i)
      squares += double(widen(v[i])) * widen(v[i]);
    return std::sqrt(squares);
  }

  ModelShape shape;
  TransformerDims dims;
  MatMul matmul;
  Context ctx{Space(), matmul};
  std::vector<Buffer<T>> param, grad, x_in, saved;
  std::vector<Buffer<float>> master, grad32, momentum, variance;
  Buffer<std::int32_t> tokens;
  Buffer<T> dx;
  Buffer<float> balance;
  Buffer<double> loss{1}, sum{1}, clip{2};
  Buffer<std::byte> workspace;

 private:
  std::array<void*, 4> tensors(int module, const std::vector<Buffer<T>>& states) const {
    std::array<void*, 4> list{};
    std::size_t i = 0;
    for (int p : shape.params_of(module)) list[i++] = values(static_cast<std::size_t>(p), states);
    return list;
  }
  TransformerBuffers buffers(int module, Kernel k) const {
    const auto u = static_cast<std::size_t>(shape.modules[module].unit);
    TransformerBuffers b;
    b.layer = static_cast<std::int64_t>(u) - 1;
    b.at[ModuleBuffer::tokens] = tokens.data();
    b.at[ModuleBuffer::x_in] = x_in[u].data();
    b.at[ModuleBuffer::x_out] = u + 1 < x_in.size() ? x_in[u + 1].data() : nullptr;
    b.at[ModuleBuffer::dx] = dx.data();
    b.at[ModuleBuffer::saved] = saved[u].data();
    b.at[ModuleBuffer::loss] = loss.data();
    const bool router = k == Kernel::forward && shape.modules[module].role == Role::router;
    b.at[ModuleBuffer::balance] = balance.data() + (router ? balance_elems(dims, b.layer) : 0);
    b.workspace = space(shape.units[u].kind, k);
    return b;
  }
  std::int64_t largest_workspace() const {
    std::int64_t bytes = 0;
    for (UnitKind unit : {UnitKind::block, UnitKind::head})
      for (Kernel k : {Kernel::forward, Kernel::backward})
        bytes = std::max(bytes, workspace_bytes(dims, unit, k, cap_bytes));
    return bytes;
  }
  // Returns exactly as much space as the plan would give this call.
  std::span<std::byte> space(UnitKind unit, Kernel k) const {
    return {workspace.data(), static_cast<std::size_t>(workspace_bytes(dims, unit, k, cap_bytes))};
  }
};
using SingleProcess = SingleProcessOf<float>;

}  // namespace shardmark::test
