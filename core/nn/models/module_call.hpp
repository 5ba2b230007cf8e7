// SPDX-License-Identifier: Apache-2.0
// The arguments of the modules in transformer.cpp and block.cpp, and their norms.
#pragma once

#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/nn/layers/norm.hpp>
#include <core/nn/models/transformer.hpp>
#include <core/nn/products/linear.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// A module's parameters; `bias` is null if the module has none. Experts have the products before
/// their activation as `weight` and `bias`, and those after it as `down` and `down_bias`; if ranks
/// divide experts, those of the gate as `weight` and the others before the activation as `up`.
template<class S>
struct TensorsOf {
  S weight = nullptr, bias = nullptr, down = nullptr, down_bias = nullptr, up = nullptr;
};
using Tensors = TensorsOf<ConstStored>;

/// The gradients of a module's parameters, and whether they are added to what is there.
struct Gradients : TensorsOf<Stored> {
  bool accumulate = false;
};

/// The sizes of the layer at hand, and the buffers and tensors of one call.
struct ModuleCall {
  ModuleCall(const Context& c, const TransformerDims& d, const TransformerBuffers& buffers,
             const Tensors& tensors = {}, const Gradients& gradients = {})
      : ctx(c),
        dims(dims_of_layer(d, std::max<std::int64_t>(buffers.layer, 0))),
        decoder(*dims.decoder),
        b(buffers),
        t(tensors),
        g(gradients),
        rows(dims.rows()),
        h(dims.hidden) {}
  /// A buffer of the model's type.
  Stored tensor(ModuleBuffer buffer) const { return {dims.dtype, b.at[buffer]}; }
  Stored x_in() const { return tensor(ModuleBuffer::x_in); }
  Stored x_out() const { return tensor(ModuleBuffer::x_out); }
  Stored dx() const { return tensor(ModuleBuffer::dx); }
  Stored partial() const { return tensor(ModuleBuffer::partial); }
  bool divided() const { return dims.part.cuts(); }
  Stored saved(std::int64_t offset) const { return {dims.dtype, saved_at(offset)}; }
  float* saved_fp32(std::int64_t offset) const {
    return reinterpret_cast<float*>(saved_at(offset));
  }
  std::int32_t* saved_ints(std::int64_t offset) const {
    return reinterpret_cast<std::int32_t*>(saved_at(offset));
  }
  std::byte* saved_at(std::int64_t offset) const {
    return b.as<std::byte>(ModuleBuffer::saved) + offset;
  }
  /// A norm whose figures are saved at these places: over `h` elements of each row, or of others.
  Norm norm(NormSaved at) const { return norm(at, rows, h); }
  Norm norm(NormSaved at, std::int64_t of_rows, std::int64_t columns) const {
    return {ctx, decoder.norm, of_rows, columns, saved_fp32(at.mean), saved_fp32(at.rstd)};
  }
  void norm_forward(const Norm& norm, ConstStored x, Stored y) const {
    norm.forward(t.weight, t.bias, x, y);
  }
  void norm_backward(const Norm& norm, ConstStored x, ConstStored dy, Stored dx, bool add,
                     std::span<std::byte> scratch) const {
    norm.gradients(t.weight, x, dy, dx, add, g.weight, g.bias, g.accumulate, scratch);
  }

  const Context& ctx;
  const TransformerDims dims;
  const Decoder& decoder;
  const TransformerBuffers& b;
  const Tensors t;
  const Gradients g;
  const std::int64_t rows, h;
};

/// The workspace as the layouts see it: tensors of the model's type and fp32 sums, then the scratch
/// of the products. The layouts reserve the cap; products may use whatever the caller provides
/// beyond it.
class Scratch {
 public:
  Scratch(const ModuleCall& call, const char* name, std::int64_t fixed_bytes)
      : call_(call), base_(call.b.workspace.data()) {
    const auto fixed = static_cast<std::size_t>(fixed_bytes);
    if (call.b.workspace.size() < fixed)
      throw MemoryError(
          fmt::format("{}: a workspace of {} bytes: must be {} and the scratch of the products: "
                      "size it with workspace_bytes",
                      name, call.b.workspace.size(), fixed));
    gemm_ = call.b.workspace.subspan(fixed);
  }
  Stored operator[](std::int64_t offset) const { return {call_.dims.dtype, base_ + offset}; }
  float* fp32(std::int64_t offset) const { return reinterpret_cast<float*>(base_ + offset); }
  /// The address to which the offsets are relative.
  std::byte* base() const { return base_; }
  std::span<std::byte> gemm() const { return gemm_; }
  /// `in_out`: weights are [in][out].
  Linear linear(bool in_out = false) const { return {call_.ctx, call_.rows, gemm_, in_out}; }

 private:
  const ModuleCall& call_;
  std::byte* base_;
  std::span<std::byte> gemm_;
};

/// A call of a module in a block, and where the block keeps the values that modules pass on.
struct BlockCall : ModuleCall {
  BlockCall(const ModuleCall& call, const BlockWorkspace& workspace)
      : ModuleCall(call), s(block_saved(dims)), w(workspace) {}

  Scratch scratch() const { return {*this, "block", w.gemm}; }
  Stored value(Value v) const {
    if (v == Value::act) return scratch()[w.act];
    if (v == Value::in) return x_in();
    const bool leaves = v == Value::out || (v == Value::mlp_out && !decoder.norms_after());
    return leaves ? x_out() : saved(s.at[v]);
  }
  Stored gradient(Value v) const { return {gradient_type(dims, v), scratch()[w.d[v]].data}; }

  const BlockSaved s;
  const BlockWorkspace w;
};

/// The biases of the outputs from `first` on, if there are any.
inline ConstStored bias_at(ConstStored all, std::int64_t first) {
  return all.data == nullptr ? all : all.at(first);
}

/// Throws PlanError: no decoder has a module of this role.
[[noreturn]] inline void unknown_role(Role role) {
  throw PlanError(fmt::format("no kernel for a module of role {}: must be a role of the model",
                              to_string(role)));
}

/// Runs one module of a block, or a part of its pass, as transformer_forward, transformer_backward
/// and transformer_part describe. Throws PlanError for a role that a block does not have.
void run_block(const ModuleCall& call, Kernel kernel, Role role);

}  // namespace shardmark
