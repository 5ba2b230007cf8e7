// SPDX-License-Identifier: Apache-2.0
// What the modules of transformer.cpp, gpt2.cpp and llama.cpp are handed.
#pragma once

#include <fmt/format.h>

#include <core/error.hpp>
#include <core/nn/linear.hpp>
#include <core/nn/transformer.hpp>

namespace shardmark {

/// The workspace as the layouts see it: fp32 elements, then the products' scratch. The layouts
/// reserve the cap; what the caller gives beyond the elements is the products' to use.
class Scratch {
 public:
  Scratch(std::span<std::byte> workspace, const char* call, std::int64_t fixed_elems)
      : base_(reinterpret_cast<float*>(workspace.data())) {
    const auto fixed_bytes = static_cast<std::size_t>(fixed_elems) * sizeof(float);
    if (workspace.size() < fixed_bytes)
      throw MemoryError(
          fmt::format("{}: workspace of {} bytes: needs {} and the products' scratch: "
                      "size it with workspace_bytes",
                      call, workspace.size(), fixed_bytes));
    gemm_ = workspace.subspan(fixed_bytes);
  }
  float* operator[](std::int64_t offset) const { return base_ + offset; }
  std::span<std::byte> gemm() const { return gemm_; }

 private:
  float* base_;
  std::span<std::byte> gemm_;
};

/// One call's view of dims and buffers.
struct ModuleCall {
  ModuleCall(const Context& c, const TransformerDims& d, const TransformerBuffers& buffers)
      : ctx(c), dims(d), b(buffers), rows(d.rows()), h(d.hidden) {}
  float* saved(std::int64_t offset) const { return b.saved + offset; }
  Linear linear(const Scratch& scratch) const { return {ctx, rows, scratch.gemm()}; }

  const Context& ctx;
  const TransformerDims& dims;
  const TransformerBuffers& b;
  const std::int64_t rows, h;
};

/// A module's parameters and where their gradients go; `bias` is null where it has none.
struct Tensors {
  const float *weight, *bias;
};
struct Gradients {
  float *weight, *bias;
  bool accumulate;
};

[[noreturn]] inline void no_code(Family family, Role role) {
  throw PlanError(
      fmt::format("{}: a module of role {} computes nothing", to_string(family), to_string(role)));
}

}  // namespace shardmark
