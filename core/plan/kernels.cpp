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

Uses divided_forward(Role role) {
  static constexpr std::array attention{u(saved), w(workspace), w(partial)};
  static constexpr std::array last_product{r(saved), w(workspace), w(partial)};
  static constexpr std::array head{u(saved), w(workspace)};
  switch (role) {
    case Role::attn_proj: return attention;
    case Role::mlp_proj: return last_product;
    case Role::head: return head;
    default: return forward_buffers(role);
  }
}
Uses divided_forward_end(Role role) {
  static constexpr std::array attention{r(x_in), u(saved), r(partial)};
  static constexpr std::array last_product{r(saved), w(x_out), r(partial)};
  static constexpr std::array head{r(tokens), u(saved), w(loss)};
  return role == Role::attn_proj  ? Uses(attention)
         : role == Role::mlp_proj ? Uses(last_product)
                                  : head;
}
Uses divided_backward(const Module& m) {
  static constexpr std::array product{r(saved), u(workspace), w(partial)};
  static constexpr std::array head{r(saved), w(workspace), w(partial)};
  if (m.role == Role::head) return head;
  return m.cut == ProductCut::columns ? Uses(product) : backward_buffers(m.role);
}
constexpr std::array divided_backward_end{u(workspace), r(partial)};

// A module of a plain block, or the head.
Uses divided_buffers(const Module& m, Kernel kernel) {
  switch (kernel) {
    case Kernel::forward: return divided_forward(m.role);
    case Kernel::forward_end: return divided_forward_end(m.role);
    case Kernel::backward: return divided_backward(m);
    default: return divided_backward_end;
  }
}

// A divided projection of another block, or its router, of whose input each rank has a part of the
// gradient.
Uses divided_shared_buffers(const Module& m, Kernel kernel) {
  static constexpr std::array last{r(x_in), u(saved), w(workspace), w(partial)};
  static constexpr std::array middle_end{r(x_in), u(saved), r(partial)};
  static constexpr std::array last_end{r(x_in), u(saved), w(x_out), r(partial)};
  static constexpr std::array back{r(x_in), r(saved), u(dx), u(workspace), w(partial)};
  const bool rows = m.cut == ProductCut::rows;
  switch (kernel) {
    case Kernel::forward: return rows ? Uses(last) : shared_forward(m);
    case Kernel::forward_end: return m.ends_forward ? Uses(last_end) : Uses(middle_end);
    case Kernel::backward: return rows ? shared_backward(m) : back;
    default: return divided_backward_end;
  }
}

// Experts that ranks divide. Their rows are in `home` or `away` while ranks send them.
Uses exchanged_buffers(const Module& m, Kernel kernel) {
  static constexpr std::array begin{r(saved), w(counts_sent), w(home)};
  static constexpr std::array counts{r(counts_sent), r(counts_received)};
  static constexpr std::array pass{r(counts_received), u(saved), w(workspace), u(away)};
  static constexpr std::array end{u(saved), r(home), w(x_out)};
  static constexpr std::array inner_end{u(saved), r(home)};
  static constexpr std::array first_back{r(saved), r(dx), w(workspace), w(home)};
  static constexpr std::array begin_back{r(saved), r(dx), u(workspace), w(home)};
  static constexpr std::array back{r(saved), u(workspace), u(away)};
  static constexpr std::array end_back{r(saved), r(home), u(workspace)};
  switch (kernel) {
    case Kernel::forward_begin: return begin;
    case Kernel::count_routed: return counts;
    case Kernel::forward: return pass;
    case Kernel::forward_end: return m.ends_forward ? Uses(end) : Uses(inner_end);
    case Kernel::backward_begin: return m.begins_backward ? first_back : begin_back;
    case Kernel::backward: return back;
    default: return end_back;
  }
}

// Experts of ranks that divide layers as well: these calls also use what describes the pairs of
// each lane, and the other calls are those of divided experts.
Uses folded_buffers(const Module& m, Kernel kernel) {
  static constexpr std::array begin{u(saved),        w(counts_sent),  w(home),      w(pair_tokens),
                                    w(pair_choices), w(pair_weights), w(lane_pairs)};
  static constexpr std::array first_back{r(saved), r(dx), w(workspace), w(home), w(pair_weights)};
  static constexpr std::array end_back{r(saved), r(home), r(pair_weights), u(workspace)};
  switch (kernel) {
    case Kernel::forward_begin: return begin;
    case Kernel::backward_begin: return first_back;
    case Kernel::backward_end: return end_back;
    default: return exchanged_buffers(m, kernel);
  }
}

}  // namespace

std::span<const BufferUse> buffers_of(const Decoder& decoder, const Module& module, Kernel kernel) {
  const Role role = module.role;
  const bool shared = in_block(role) && !is_plain(decoder);
  if (module.cut != ProductCut::none)
    return shared ? divided_shared_buffers(module, kernel) : divided_buffers(module, kernel);
  if (module.folded)
    return module.exchanged ? folded_buffers(module, kernel)
                            : divided_shared_buffers(module, kernel);
  if (decoder.moe.balance_loss > 0 && (role == Role::router || role == Role::head))
    return balanced(role, kernel);
  if (module.exchanged) return exchanged_buffers(module, kernel);
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
