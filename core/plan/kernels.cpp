// SPDX-License-Identifier: Apache-2.0
// The modules of a unit pass values to each other through its buffers `saved` and workspace: the
// first module of a pass writes these buffers, and the others update them.
#include <array>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/kernels.hpp>

namespace shardmark {
namespace {

using enum ModuleBuffer;
using Uses = std::span<const BufferUse>;

constexpr BufferUse r(ModuleBuffer b) {
  return {b, true, false};
}
constexpr BufferUse w(ModuleBuffer b) {
  return {b, false, true};
}
constexpr BufferUse u(ModuleBuffer b) {
  return {b, true, true};
}

Uses forward_buffers(Role role) {
  static constexpr std::array token{r(tokens), w(x_out)};
  static constexpr std::array position{u(x_out)};
  static constexpr std::array first_norm{r(x_in), w(saved)};
  static constexpr std::array product{u(saved), w(workspace)};
  static constexpr std::array attention{r(x_in), u(saved), w(workspace)};
  static constexpr std::array second_norm{u(saved)};
  static constexpr std::array last_product{r(saved), w(x_out), w(workspace)};
  static constexpr std::array loss_head{r(tokens), u(saved), w(loss), w(workspace)};
  if (projection_roles.contains(role)) return product;
  switch (role) {
    case Role::token_embedding: return token;
    case Role::position_embedding: return position;
    case Role::norm1:
    case Role::final_norm: return first_norm;
    case Role::attn_proj: return attention;
    case Role::norm2: return second_norm;
    case Role::mlp_proj: return last_product;
    case Role::head: return loss_head;
    default: return {};
  }
}

Uses backward_buffers(Role role) {
  static constexpr std::array loss_head{r(saved), w(workspace)};
  static constexpr std::array last_norm{r(x_in), r(saved), r(workspace), w(dx)};
  static constexpr std::array last_product{r(saved), r(dx), w(workspace)};
  static constexpr std::array product{r(saved), u(workspace)};
  static constexpr std::array second_norm{r(saved), r(workspace), u(dx)};
  static constexpr std::array attention{r(saved), r(dx), u(workspace)};
  static constexpr std::array first_norm{r(x_in), r(saved), r(workspace), u(dx)};
  static constexpr std::array position{r(dx)};
  static constexpr std::array token{r(tokens), r(dx)};
  if (projection_roles.contains(role)) return product;
  switch (role) {
    case Role::head: return loss_head;
    case Role::final_norm: return last_norm;
    case Role::mlp_proj: return last_product;
    case Role::norm2: return second_norm;
    case Role::attn_proj: return attention;
    case Role::norm1: return first_norm;
    case Role::position_embedding: return position;
    case Role::token_embedding: return token;
    default: return {};
  }
}

// A block whose modules share all of its buffers. The first module of each pass writes what the
// others update.
Uses shared_forward(const Module& m) {
  static constexpr std::array begin{r(x_in), w(saved), w(workspace)};
  static constexpr std::array middle{r(x_in), u(saved), w(workspace)};
  static constexpr std::array end{r(x_in), u(saved), w(x_out), w(workspace)};
  return m.begins_forward ? Uses(begin) : m.ends_forward ? Uses(end) : middle;
}
Uses shared_backward(const Module& m) {
  static constexpr std::array begin{r(x_in), r(saved), u(dx), w(workspace)};
  static constexpr std::array others{r(x_in), r(saved), u(dx), u(workspace)};
  return m.begins_backward ? begin : others;
}

// The factors of the last product complete what the product has written, and find its input in the
// workspace.
Uses adapted_forward(const Decoder& decoder, const Module& m) {
  static constexpr std::array middle{r(x_in), u(saved), u(workspace)};
  static constexpr std::array end{r(x_in), u(saved), w(x_out), u(workspace)};
  static constexpr std::array completion{r(x_in), u(saved), u(x_out), u(workspace)};
  const bool product = m.adapted && m.role == Role::mlp_proj && !decoder.norms_after();
  if (m.begins_forward) return shared_forward(m);
  if (m.ends_forward && m.role == Role::lora_b) return completion;
  return m.ends_forward || product ? Uses(end) : middle;
}

// The loss that balances experts couples the layers: each router leaves its sums, the head adds the
// loss, and the gradient of each router's probabilities needs the sums of all.
Uses balanced(Role role, Kernel kernel) {
  static constexpr std::array router{r(x_in), u(saved), w(balance), u(workspace)};
  static constexpr std::array router_back{r(x_in), r(saved), u(dx), r(balance), u(workspace)};
  static constexpr std::array head{r(tokens), u(saved), w(loss), r(balance), w(workspace)};
  const bool forward = kernel == Kernel::forward;
  if (role == Role::head) return forward ? head : backward_buffers(role);
  return forward ? Uses(router) : router_back;
}

Uses normed_embedding(Role role, Kernel kernel) {
  static constexpr std::array token{r(tokens), w(saved)}, token_back{r(tokens), r(dx)};
  static constexpr std::array norm{u(saved), w(x_out)}, norm_back{r(saved), u(dx)};
  const bool forward = kernel == Kernel::forward;
  if (role == Role::token_embedding) return forward ? token : token_back;
  return forward ? norm : norm_back;
}

// A product that ranks divide, or a folded router, of whose input each rank has a part of the
// gradient. What the pass leaves in `partial`, or of a head in `saved`, ranks add up or gather
// before the end of the pass. `shared` says whether the modules of the block share all of its
// buffers.
Uses divided_buffers(const Module& m, Kernel kernel, bool shared) {
  static constexpr std::array attention{u(saved), w(workspace), w(partial)};
  static constexpr std::array attention_end{r(x_in), u(saved), r(partial)};
  static constexpr std::array last{r(saved), w(workspace), w(partial)};
  static constexpr std::array last_end{r(saved), w(x_out), r(partial)};
  static constexpr std::array head{u(saved), w(workspace)};
  static constexpr std::array head_end{r(tokens), u(saved), w(loss)};
  static constexpr std::array back{r(saved), u(workspace), w(partial)};
  static constexpr std::array shared_last{r(x_in), u(saved), w(workspace), w(partial)};
  static constexpr std::array shared_end{r(x_in), u(saved), w(x_out), r(partial)};
  static constexpr std::array shared_back{r(x_in), r(saved), u(dx), u(workspace), w(partial)};
  static constexpr std::array back_end{u(workspace), r(partial)};
  const bool rows = m.cut == ProductCut::rows, first = m.role == Role::attn_proj;
  const bool of_head = m.role == Role::head;
  switch (kernel) {
    case Kernel::forward:
      if (of_head) return head;
      if (!rows) return shared ? shared_forward(m) : forward_buffers(m.role);
      return shared ? Uses(shared_last) : first ? Uses(attention) : last;
    case Kernel::forward_end:
      if (of_head) return head_end;
      if (shared && m.ends_forward) return shared_end;
      return shared || first ? Uses(attention_end) : last_end;
    case Kernel::backward:
      if (of_head) return last;
      if (rows) return shared ? shared_backward(m) : backward_buffers(m.role);
      return shared ? Uses(shared_back) : back;
    default: return back_end;
  }
}

// Experts that ranks divide. Their rows are in `home` or `away` while ranks send them. If ranks
// divide layers as well, some calls also use what describes the pairs of each lane.
Uses exchanged_buffers(const Module& m, Kernel kernel) {
  static constexpr std::array begin{r(saved), w(counts_sent), w(home)};
  static constexpr std::array folded_begin{u(saved),       w(counts_sent),  w(home),
                                           w(pair_tokens), w(pair_choices), w(pair_weights),
                                           w(lane_pairs)};
  static constexpr std::array counts{r(counts_sent), r(counts_received)};
  static constexpr std::array pass{r(counts_received), u(saved), w(workspace), u(away)};
  static constexpr std::array end{u(saved), r(home), w(x_out)};
  static constexpr std::array inner_end{u(saved), r(home)};
  static constexpr std::array first_back{r(saved), r(dx), w(workspace), w(home)};
  static constexpr std::array folded_back{r(saved), r(dx), w(workspace), w(home), w(pair_weights)};
  static constexpr std::array begin_back{r(saved), r(dx), u(workspace), w(home)};
  static constexpr std::array back{r(saved), u(workspace), u(away)};
  static constexpr std::array end_back{r(saved), r(home), u(workspace)};
  static constexpr std::array folded_end{r(saved), r(home), r(pair_weights), u(workspace)};
  switch (kernel) {
    case Kernel::forward_begin: return m.folded ? Uses(folded_begin) : begin;
    case Kernel::count_routed: return counts;
    case Kernel::forward: return pass;
    case Kernel::forward_end: return m.ends_forward ? Uses(end) : Uses(inner_end);
    case Kernel::backward_begin:
      if (m.folded) return folded_back;
      return m.begins_backward ? first_back : begin_back;
    case Kernel::backward: return back;
    default: return m.folded ? Uses(folded_end) : end_back;
  }
}

}  // namespace

std::span<const BufferUse> buffers_of(const Decoder& decoder, const Module& module, Kernel kernel) {
  static constexpr std::array attends{u(saved), w(workspace)}, attends_back{r(saved), u(workspace)};
  if (kernel == Kernel::attention) return attends;
  if (kernel == Kernel::attention_backward) return attends_back;
  const Role role = module.role;
  const bool shared = in_block(role) && !is_plain(decoder);
  if (module.exchanged) return exchanged_buffers(module, kernel);
  if (module.cut != ProductCut::none || module.folded)
    return divided_buffers(module, kernel, shared);
  if (decoder.moe.balance_loss > 0 && (role == Role::router || role == Role::head))
    return balanced(role, kernel);
  if (decoder.ends.embedding_norm &&
      (role == Role::token_embedding || role == Role::embedding_norm))
    return normed_embedding(role, kernel);
  if (shared) {
    if (kernel == Kernel::backward) return shared_backward(module);
    return decoder.adapted() ? adapted_forward(decoder, module) : shared_forward(module);
  }
  return kernel == Kernel::forward ? forward_buffers(role) : backward_buffers(role);
}

}  // namespace shardmark
