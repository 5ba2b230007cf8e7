// SPDX-License-Identifier: Apache-2.0
// The contract between the schedules and the executor: which operands each compute kernel has, in
// which order. r reads, w writes all of it, u updates. A gradient operand that is `w` holds garbage
// before; one that is `u` is added to.
//
// clang-format off
//   init_param   param w                         a unit's first values, or its shard's
//   zero         buffer w
//   load_batch   tokens w                        a micro-batch, [micro][sequence + 1]
//   forward      embeddings: param r, tokens r, x_out w
//                block:      param r, x_in r, x_out w, saved w, workspace w
//                head:       param r, x_in r, tokens r, saved w, loss w|u, workspace w, [wte r]
//                list:       param r, [param of units that it reads too r …]
//   backward     head:       param r, x_in r, saved r, dx w, grad w|u, workspace w,
//                            [wte r, wte grad w|u]
//                block:      param r, x_in r, saved r, dx u, grad w|u, workspace w
//                embeddings: param r, tokens r, dx r, grad w|u,
//                            [the rest of grad, where the head made its first part]
//                list:       param r, grad w|u
//   accumulate   into u, from r
//   grad_norm    sum w, every gradient that this rank owns r …
//   clip         clip w (fp64: norm, coefficient), sum r
//   adamw        param u, grad r, momentum u, variance u, clip r
// clang-format on
#pragma once

#include <cstddef>

namespace shardmark::operand {

enum Forward : std::size_t { fwd_param, fwd_x_in, fwd_x_out, fwd_saved, fwd_workspace };
enum EmbedForward : std::size_t { embed_param, embed_tokens, embed_x_out };
enum HeadForward : std::size_t {
  head_param,
  head_x_in,
  head_tokens,
  head_saved,
  head_loss,
  head_workspace,
  head_wte
};
enum Backward : std::size_t {
  bwd_param,
  bwd_x_in,
  bwd_saved,
  bwd_dx,
  bwd_grad,
  bwd_workspace,
  bwd_wte,
  bwd_wte_grad
};
enum EmbedBackward : std::size_t {
  embed_bwd_param,
  embed_bwd_tokens,
  embed_bwd_dx,
  embed_bwd_grad,
  embed_bwd_rest
};
enum ListBackward : std::size_t { list_param, list_grad };
enum Update : std::size_t { upd_param, upd_grad, upd_momentum, upd_variance, upd_clip };

}  // namespace shardmark::operand
