// SPDX-License-Identifier: Apache-2.0
// What the executor asks of the arithmetic: run one compute event on real buffers. Two answers:
// `train` (a transformer) and `none` (exact integers in place of gradients, for any list of
// parameters).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/plan/plan.hpp>

namespace shardmark {

/// An operand with its address: `data` is the first element of the range.
struct Bound {
  void* data = nullptr;
  std::int64_t elems = 0;
  bool accumulate = false;  // the operand is updated, not overwritten

  template<class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template<class T>
  std::span<T> span() const {
    return {static_cast<T*>(data), static_cast<std::size_t>(elems)};
  }
};

class Model {
 public:
  virtual ~Model() = default;
  /// Runs `event` of `program`; `step` counts optimizer steps from 0, `micro_batch` within the
  /// step. Local, on the compute lane.
  virtual void run(const Program& program, const Event& event, std::span<const Bound> operands,
                   std::int64_t step, int micro_batch) = 0;
};

}  // namespace shardmark
