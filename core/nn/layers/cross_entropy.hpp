// SPDX-License-Identifier: Apache-2.0
// The loss: mean cross-entropy over the rows of a micro-batch, fused with its gradient, so that
// logits and their gradient are one buffer.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Where logits [rows][vocab] lie: in pieces of `columns` of the vocabulary, one after the other,
/// each [rows][its columns]. The head's products run over pieces, so that communication progresses
/// between, and each is of dense operands: with rows a whole vocabulary apart (50 257 elements of
/// 2 bytes) libraries find no fast way.
struct HeadPieces {
  std::int64_t rows, vocab, columns;

  explicit HeadPieces(const TransformerDims& dims);
  /// Of the piece that begins at column `first`, a multiple of `columns`.
  constexpr std::int64_t columns_of(std::int64_t first) const {
    return vocab - first < columns ? vocab - first : columns;
  }
  /// Element at which its row r begins.
  constexpr std::int64_t row(std::int64_t first, std::int64_t r) const {
    return first * rows + r * columns_of(first);
  }
};

/// logits[rows][vocab], which lie as HeadPieces says, become (softmax - one_hot(target)) * scale in
/// place; row_loss[rows] gets each row's cross-entropy. The target of a row is the token after it.
void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale);

/// *loss (+)= the mean of row_loss, in double and row order; `first` overwrites.
void mean_loss(const Context& ctx, std::int64_t rows, const float* row_loss, double* loss,
               bool first);

}  // namespace shardmark
