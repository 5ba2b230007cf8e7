// SPDX-License-Identifier: Apache-2.0
// Buffers for whole matrices, of which matrices of equal size share one.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Declares such buffers in fp32 when they are first asked for, and numbers their names.
class WholeMatrices {
 public:
  WholeMatrices(PlanWriter& writer, std::string name) : w_(writer), name_(std::move(name)) {}

  /// The slot for `elems` elements. The caller acquires and releases it.
  int slot(std::int64_t elems) {
    const auto [it, fresh] = slots_.try_emplace(elems, no_slot);
    if (fresh)
      it->second =
          w_.slot(name_ + std::to_string(slots_.size()), Category::gathered, Dtype::fp32, elems);
    return it->second;
  }

 private:
  PlanWriter& w_;
  std::string name_;
  std::map<std::int64_t, int> slots_;  // by elements
};

}  // namespace shardmark
