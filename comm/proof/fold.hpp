// SPDX-License-Identifier: Apache-2.0
// Folds: a buffer reduced to a few numbers which tell a changed buffer from an unchanged one. The
// functions are pure and read host memory.
#pragma once

#include <array>
#include <cstdint>

#include <core/plan/deck/types.hpp>

struct XXH3_state_s;

namespace shardmark {

/// A keyed 64-bit hash (XXH3) of bytes that are added piece by piece. The key is drawn during the
/// run, so a changed byte escapes with a probability of about 2^-64.
class ByteFold {
 public:
  explicit ByteFold(std::uint64_t key);
  ~ByteFold();
  ByteFold(const ByteFold&) = delete;
  ByteFold& operator=(const ByteFold&) = delete;
  void add(const void* data, std::int64_t bytes);
  std::uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

/// The fold of one block of elements x_i with weights w_i in [1/2, 1).
struct BlockSum {
  double weighted = 0;   // the sum of w_i x_i
  double magnitude = 0;  // the sum of w_i |x_i|
};

/// Weights of the elements of a block, repeated where a block is longer.
using Weights = std::array<double, 256>;
Weights draw_weights(std::uint64_t key);

/// Writes one BlockSum for each `block` elements of `data`; the last block may be shorter. `dtype`
/// is a floating-point type. The sums are made in fp64.
void fold_blocks(Dtype dtype, const void* data, std::int64_t elems, std::int64_t block,
                 const Weights& weights, BlockSum* out);

/// The number of elements per block for an array of `elems` elements: one for small arrays, so that
/// each element is judged by itself, and never so few that there are more than 2^20 blocks.
std::int64_t block_elems(Dtype dtype, std::int64_t elems);

/// The bound of the difference that rounding alone can make between the sum of all ranks' folds of
/// a block and the fold of the result times `factor` (the number of ranks for an average).
/// `sent.magnitude` is the sum over all ranks. An addition of two numbers errs by at most
/// u |result| (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), so
/// any order of `size` - 1 additions errs by at most gamma(size - 1) times the sum of magnitudes.
/// 16-bit types are summed in fp32 and rounded once, unless `rounds_each_sum` (NCCL's ring).
double rounding_bound(Dtype dtype, int size, std::int64_t block, const BlockSum& sent,
                      const BlockSum& received, double factor, bool rounds_each_sum);

/// The largest finite value of `dtype`.
double largest(Dtype dtype);

}  // namespace shardmark
