// SPDX-License-Identifier: Apache-2.0
// The buffers of an all_to_all between ranks that divide samples, one part per rank: before it a
// rank has its tokens with all heads, after it all tokens with its heads, or the other way round.
// A part is [tokens of one rank][samples][channels of one rank], as in DeepSpeed's
// runtime/sequence_parallel/ulysses_sp.py.
#pragma once

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// The sizes of such a buffer. A rank's tokens are [samples][tokens][ranks * channels / copies],
/// its heads [samples][ranks * tokens][channels].
struct SequenceParts {
  std::int64_t samples, tokens;  // tokens: of one rank in each sample
  std::int64_t ranks, channels;  // channels: of one rank
  std::int64_t copies = 1;       // neighbours that have the same head
};

/// The kernels split_heads and join_heads: a rank's tokens to parts, and back. What copies of a
/// head have is added up in fp32, in the order of ranks, and rounded once. split_tokens and
/// join_tokens: a rank's heads to parts, and back.
void rearrange_parts(const Context& ctx, Kernel way, const SequenceParts& shape, ConstStored from,
                     Stored into);

}  // namespace shardmark
