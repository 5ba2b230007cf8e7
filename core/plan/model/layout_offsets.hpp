// SPDX-License-Identifier: Apache-2.0
// How offsets in activations and workspaces are counted.
#pragma once

#include <cstdint>

#include <core/cache_line.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// As checked_mul, for the sizes of a model's tensors.
inline std::int64_t size_mul(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b, "model: sizes of activations");
}

/// Gives out offsets in bytes one after another, each at the start of a cache line.
class Offsets {
 public:
  explicit Offsets(Dtype model, std::int64_t first = 0) : model_(model), end_(first) {}

  /// Elements of the model's type.
  std::int64_t take(std::int64_t elems) { return take(elems, model_); }
  /// Sums, and values per row.
  std::int64_t take_fp32(std::int64_t elems) { return take(elems, Dtype::fp32); }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t take(std::int64_t elems, Dtype dtype) {
    const std::int64_t at = end_, bytes = size_mul(elems, dtype_bytes(dtype));
    end_ = round_up(checked_add(end_, bytes, "model: sizes of activations"), cache_line_bytes,
                    "model: sizes of activations");
    return at;
  }

  Dtype model_;
  std::int64_t end_;
};

}  // namespace shardmark
