// SPDX-License-Identifier: Apache-2.0
// How the layouts of activations and workspaces are counted out.
#pragma once

#include <cstdint>

#include <core/plan/checked.hpp>
#include <core/plan/types.hpp>

namespace shardmark {

inline constexpr std::int64_t line_elems = 16;  // fp32 elements of a 64-byte line

/// As checked_mul, for the sizes of a model's tensors.
inline std::int64_t size_mul(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b, "model: sizes of activations");
}

/// Hands out offsets in fp32 elements one after another, each at a line's start.
class Offsets {
 public:
  std::int64_t take(std::int64_t elems) {
    const std::int64_t at = end_;
    end_ = round_up(checked_add(end_, elems, "model: sizes of activations"), line_elems,
                    "model: sizes of activations");
    return at;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

/// Puts the matrix products' scratch behind the `end` fp32 elements of a workspace.
template<class Workspace>
void close_workspace(Workspace& w, std::int64_t end, std::int64_t gemm_cap_bytes) {
  w.gemm = end;
  w.gemm_bytes = gemm_cap_bytes;
  w.bytes = checked_add(size_mul(end, dtype_bytes(Dtype::fp32)), gemm_cap_bytes, "workspace");
}

}  // namespace shardmark
