// SPDX-License-Identifier: Apache-2.0
// The modules of a unit pass values to each other through its buffers `saved` and workspace: the
// first module of a pass writes these buffers, and the others update them.
#include <array>

#include <core/plan/kernels.hpp>

namespace shardmark {
namespace {

using enum ModuleBuffer;

constexpr BufferUse r(ModuleBuffer b) {
  return {b, true, false};
}
constexpr BufferUse w(ModuleBuffer b) {
  return {b, false, true};
}
constexpr BufferUse u(ModuleBuffer b) {
  return {b, true, true};
}

std::span<const BufferUse> forward_buffers(Role role) {
  static constexpr std::array token{r(tokens), w(x_out)};
  static constexpr std::array position{u(x_out)};
  static constexpr std::array first_norm{r(x_in), w(saved)};
  static constexpr std::array product{u(saved), w(workspace)};
  static constexpr std::array attention{r(x_in), u(saved), w(workspace)};
  static constexpr std::array second_norm{u(saved)};
  static constexpr std::array last_product{r(saved), w(x_out), w(workspace)};
  static constexpr std::array loss_head{r(tokens), u(saved), w(loss), w(workspace)};
  switch (role) {
    case Role::token_embedding: return token;
    case Role::position_embedding: return position;
    case Role::norm1:
    case Role::final_norm: return first_norm;
    case Role::qkv:
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::fc:
    case Role::gate:
    case Role::up: return product;
    case Role::attn_proj: return attention;
    case Role::norm2: return second_norm;
    case Role::mlp_proj: return last_product;
    case Role::head: return loss_head;
    case Role::container:
    case Role::list: break;
  }
  return {};
}

std::span<const BufferUse> backward_buffers(Role role) {
  static constexpr std::array loss_head{r(saved), w(workspace)};
  static constexpr std::array last_norm{r(x_in), r(saved), r(workspace), w(dx)};
  static constexpr std::array last_product{r(saved), r(dx), w(workspace)};
  static constexpr std::array product{r(saved), u(workspace)};
  static constexpr std::array second_norm{r(saved), r(workspace), u(dx)};
  static constexpr std::array attention{r(saved), r(dx), u(workspace)};
  static constexpr std::array first_norm{r(x_in), r(saved), r(workspace), u(dx)};
  static constexpr std::array position{r(dx)};
  static constexpr std::array token{r(tokens), r(dx)};
  switch (role) {
    case Role::head: return loss_head;
    case Role::final_norm: return last_norm;
    case Role::mlp_proj: return last_product;
    case Role::fc:
    case Role::gate:
    case Role::up:
    case Role::qkv:
    case Role::q:
    case Role::k:
    case Role::v: return product;
    case Role::norm2: return second_norm;
    case Role::attn_proj: return attention;
    case Role::norm1: return first_norm;
    case Role::position_embedding: return position;
    case Role::token_embedding: return token;
    case Role::container:
    case Role::list: break;
  }
  return {};
}

}  // namespace

std::span<const BufferUse> buffers_of(Role role, Kernel kernel) {
  return kernel == Kernel::forward ? forward_buffers(role) : backward_buffers(role);
}

}  // namespace shardmark
