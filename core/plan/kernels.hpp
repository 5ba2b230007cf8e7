// SPDX-License-Identifier: Apache-2.0
// The contract between the schedules and the executor: the operands of each kernel, in their order.
// r reads an operand, w writes all of it, and u updates it. A gradient operand with `w` holds
// garbage before; to one with `u` the kernel adds.
//
// clang-format off
//   init_param   param w                   first values of Event::params[0] from Event::first on
//   zero         buffer w
//   load_batch   tokens w, [positions w]   a micro-batch, [micro][sequence + 1]; if ranks divide samples,
//                this rank's part of them and the positions of that part
//   forward      each parameter r …, then buffers_of(decoder, module, forward)
//   backward     each trained parameter r …, their gradients w|u …, each frozen parameter r …, then
//                buffers_of(decoder, module, backward)
//   forward_end, backward_end  buffers_of(decoder, module, that kernel): what remains of a divided
//                module's pass once the ranks have added up, or gathered, what the pass left
//   forward_begin, backward_begin  buffers_of(decoder, module, that kernel): what comes before a
//                pass through experts that ranks divide, up to what is sent to the ranks that have them
//                (backward_end of a router: the mean of what ranks have of its input's gradient)
//   count_routed counts r, counts r        how many rows each expert of the layer has here, and those that
//                ranks send to this one's: how large the parts of the next all_to_all are
//   attention    saved u, workspace w      of whole samples, with this rank's part of the heads, where
//                ranks divide samples; forward and backward of attn_proj are the projection then
//   attention_backward  saved r, workspace u
//   split_heads  parts w, from r           this rank's tokens: for each rank the heads that it has
//   join_heads   into w, parts r           the way back; adds up what ranks have of one head
//   split_tokens parts w, from r           this rank's heads: for each rank the tokens that it has
//   join_tokens  into w, parts r           the way back
//   accumulate   into u, from r            into += from, in the type of `into`
//   convert      into w, from r            from / divisor (*), then in the type of `into`
//   scale        buffer u                  buffer /= Event::divisor
//   interleave   into u, from r            a whole tensor / divisor (*) -> rank-major in `into`, in its type
//   rearrange    into w, from r            the way back: rank-major `from` -> a whole tensor
//   quantize     into w (int8), steps w, from r (fp16): in as many groups as there are steps
//   dequantize   into w (fp16), from r (int8), steps r: the way back
//   quantize_int4    into w (int8), steps w, from r (fp16): two elements per byte; the ranks' parts
//                    go in the order of their places in the event's group, then of the groups
//   reduce_int4      into w (int8), steps w, from r (int8), steps r: the sum over the event's group
//   dequantize_int4  into w (fp16), from r (int8), steps r
//   sum_parts        into w (fp16), from r (fp16): the sum over the event's group
//   orthogonalize  gradient u, staged w, momentum r, [workspace w (uint8)]: Muon's update of a whole
//                  matrix, in one type; `staged` is its momentum after the step, and may be the
//                  momentum itself (u, without r). Without arithmetic no workspace
//   overflow     flag w|u, gradient r …    flag = 1 if any element is not finite, else 0 (u: unchanged)
//   grad_norm    sum w|u, gradient r …     sum of squares (ordered: exact limbs); u: adds to it
//   clip         clip w (fp64: norm, coefficient), sum r|u, [further sums r …]; with Event::params,
//                  one of each sum's group (all sums u): sums over Muon's updates lack the loss scale
//   clip_gradient  gradient u, clip r      gradient *= coefficient, in the type of the gradient
//   unscale      buffer u                  buffer /= the scale with which the step's loss was made
//   rescale      buffer u                  the way back
//   adamw        master u, gradient r, momentum u, variance u, clip r, [param w: the master rounded]
//   lion         the same without variance
//   sgd          the same without variance; without momentum too if the optimizer keeps none
//   adagrad      the same without momentum
//   muon         the same without moments; without clip too if clip_gradient came before
// clang-format on
//
// (*) The quotient by Event::divisor is rounded in the type of `from`, as if a `scale` had come
// before, but without its pass over memory. A divisor of 1 does not divide, and a convert is then a
// copy if the types are equal. interleave and rearrange: `into` or `from` has one row per rank of
// the event's group, and each row holds the shards of all tensors one after another. The operand
// extends from the tensor's first element in row 0 to its last element in the last row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// One operand of a module's call, and whether the call reads or writes it.
struct BufferUse {
  ModuleBuffer buffer;
  bool reads, writes;
};

/// The buffers of one call of a decoder's module, in operand order; a list module has none. From
/// the second micro-batch on the loss is updated and not written. The blocks of GPT-2 and Llama
/// name what each module needs; in other blocks each module may use all buffers of the block. A
/// pass through a module that ranks divide has two calls.
std::span<const BufferUse> buffers_of(const Decoder& decoder, const Module& module, Kernel kernel);

namespace operand {
/// The operands of an update: its moments are followed by the clip and, if the master is rounded,
/// the parameter.
enum Update : std::size_t { upd_master, upd_grad, upd_moments };
}  // namespace operand

}  // namespace shardmark
