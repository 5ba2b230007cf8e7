// SPDX-License-Identifier: Apache-2.0
// Operands for what a calibration times: in no cache, and with values. Processors move lines of
// zeros faster than others: on an EPYC, a copy of them takes four fifths of the time.
#pragma once

#include <cstdint>

#include <core/memory/buffer.hpp>
#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// Memory of this rank, which is taken from the beginning to the end and then from the beginning
/// again, so that what is taken was used longest ago.
class ColdMemory {
 public:
  /// `values` is the type of the values that it contains in the beginning.
  ColdMemory(const Context& ctx, Dtype values, std::int64_t bytes);
  /// Bytes that begin a page; at most all of them.
  void* take(std::int64_t bytes);

 private:
  Buffer buffer_;
  std::int64_t at_ = 0;
};

}  // namespace shardmark
