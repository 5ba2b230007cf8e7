// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/sequence_parts.hpp>

namespace shardmark {
namespace {

// Where the channels of token t of a sample begin in the parts, of whichever rank it is.
KOKKOS_INLINE_FUNCTION std::int64_t place(const SequenceParts& s, std::int64_t sample,
                                          std::int64_t t) {
  return (t * s.samples + sample) * s.channels;
}

template<class T>
void split_heads(const Context& ctx, const SequenceParts& s, const T* all_from, T* parts) {
  const std::int64_t width = s.ranks / s.copies * s.channels;
  kernel::for_each_row(
      ctx, "shardmark::split_heads", s.samples * s.tokens,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        for (std::int64_t rank = 0; rank < s.ranks; ++rank) {
          const T* from = all_from + r * width + rank / s.copies * s.channels;
          T* to = parts + place(s, r / s.tokens, rank * s.tokens + r % s.tokens);
          row.loop(s.channels, [&](std::int64_t j) { to[j] = from[j]; });
        }
      });
}

template<class T>
void join_heads(const Context& ctx, const SequenceParts& s, const T* parts, T* all_into) {
  const std::int64_t heads = s.ranks / s.copies;
  kernel::for_each_row(
      ctx, "shardmark::join_heads", s.samples * s.tokens,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        for (std::int64_t head = 0; head < heads; ++head) {
          T* into = all_into + (r * heads + head) * s.channels;
          row.loop(s.channels, [&](std::int64_t j) {
            float sum = 0;
            for (std::int64_t copy = 0; copy < s.copies; ++copy) {
              const std::int64_t rank = head * s.copies + copy;
              sum += widen(parts[place(s, r / s.tokens, rank * s.tokens + r % s.tokens) + j]);
            }
            round_to(into[j], sum);
          });
        }
      });
}

// Swaps samples and tokens.
template<class T>
void move_tokens(const Context& ctx, const SequenceParts& s, const T* from, T* into, bool splits) {
  const char* const label = splits ? "shardmark::split_tokens" : "shardmark::join_tokens";
  const std::int64_t all_tokens = s.ranks * s.tokens;
  kernel::for_each_row(
      ctx, label, s.samples * all_tokens, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const std::int64_t own = r * s.channels;
        const std::int64_t part = place(s, r / all_tokens, r % all_tokens);
        const T* x = from + (splits ? own : part);
        T* y = into + (splits ? part : own);
        row.loop(s.channels, [&](std::int64_t j) { y[j] = x[j]; });
      });
}

}  // namespace

void rearrange_parts(const Context& ctx, Kernel way, const SequenceParts& shape, ConstStored from,
                     Stored into) {
  with_elements(
      [&](auto* x, auto* y) {
        if (way == Kernel::split_heads) return split_heads(ctx, shape, x, y);
        if (way == Kernel::join_heads) return join_heads(ctx, shape, x, y);
        move_tokens(ctx, shape, x, y, way == Kernel::split_tokens);
      },
      from, into);
}

}  // namespace shardmark
