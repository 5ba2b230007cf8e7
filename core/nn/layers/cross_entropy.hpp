// SPDX-License-Identifier: Apache-2.0
// The loss: the mean cross-entropy over the rows of a micro-batch, fused with its gradient, so that
// the logits and their gradient share one buffer.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Where the logits [rows][vocab] lie: in pieces of `columns` tokens of the vocabulary, one after
/// another, each stored [rows][its columns]. The products of the head work piece by piece, so that
/// communication progresses in between on a host, and so that each product has dense operands:
/// libraries have no fast implementation for rows that are a whole vocabulary apart (50 257
/// elements of 2 bytes). If ranks divide the head, each makes one piece.
struct HeadPieces {
  std::int64_t rows, vocab;
  std::int64_t columns;  // of the widest piece, for which each one has room
  std::int64_t wide;     // how many pieces have these; each one after them has one column fewer
  std::int64_t count;

  explicit HeadPieces(const TransformerDims& dims);
  /// Returns the first column of a piece.
  constexpr std::int64_t first(std::int64_t piece) const {
    return piece * columns - (piece > wide ? piece - wide : 0);
  }
  /// Returns how many columns it has. The last one may have fewer than the others.
  constexpr std::int64_t columns_of(std::int64_t piece) const {
    const std::int64_t most = piece < wide ? columns : columns - 1, left = vocab - first(piece);
    return left < most ? left : most;
  }
  /// Returns the piece of a column.
  constexpr std::int64_t piece_of(std::int64_t column) const {
    return column < wide * columns ? column / columns
                                   : wide + (column - wide * columns) / (columns - 1);
  }
  /// Returns the element at which row r of a piece begins.
  constexpr std::int64_t row(std::int64_t piece, std::int64_t r) const {
    return piece * columns * rows + r * columns_of(piece);
  }
};

/// z = factor * logit, or cap * tanh(factor * logit / cap) if there is a cap, in place.
struct LogitShape {
  float factor = 1, cap = 0;
  bool none() const { return factor == 1 && cap == 0; }
};
void shape_logits(const Context& ctx, std::int64_t elems, Stored logits, const LogitShape& shape);

/// Replaces logits[rows][vocab], which lie as HeadPieces says, by (softmax - one_hot(target)) *
/// scale, and writes the cross-entropy of each row to row_loss[rows]. The target of a row is the
/// token after it. If the logits were shaped, the gradient is that of what they were before.
void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale, const LogitShape& shape = {});

/// *loss (+)= the mean of row_loss, summed in double in the order of rows; `first` overwrites.
void mean_loss(const Context& ctx, std::int64_t rows, const float* row_loss, double* loss,
               bool first);

}  // namespace shardmark
