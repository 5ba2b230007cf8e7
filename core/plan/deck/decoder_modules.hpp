// SPDX-License-Identifier: Apache-2.0
// The decoders that a deck can name: the rows of the families, the order in which the modules of a
// block are called, and the widths of their tensors.
#pragma once

#include <initializer_list>
#include <vector>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Roles that have something in common.
class RoleSet {
 public:
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) has_[role] = true;
  }
  constexpr bool contains(Role role) const { return has_[role]; }

 private:
  EnumArray<Role, bool> has_{};
};

/// The products whose input is the output of a norm: of the MLP, and of the projections of
/// attention, some of which read what other ones have made.
inline constexpr RoleSet projection_roles{Role::qkv, Role::q,    Role::k,    Role::v,
                                          Role::q_a, Role::q_b,  Role::kv_a, Role::kv_b,
                                          Role::fc,  Role::gate, Role::up};
/// The modules outside of blocks, and those of unknown arithmetic.
inline constexpr RoleSet roles_outside_blocks{Role::token_embedding,
                                              Role::position_embedding,
                                              Role::embedding_norm,
                                              Role::final_norm,
                                              Role::head,
                                              Role::container,
                                              Role::list};

/// Returns the description of a model: that of its family, or its own. Throws PlanError for a list.
const SharedDecoder& decoder_of(const ModelSpec& spec);

/// Returns the row of a family, from which a description may start.
Decoder decoder_like(Family family);

/// Heads of keys and values, and the width of the feed-forward layer, which some families derive.
std::int64_t kv_heads_of(const ModelSpec& spec);
std::int64_t ffn_of(const ModelSpec& spec);
/// Channels of a head.
std::int64_t head_dim_of(const ModelSpec& spec);

/// Whether a layer is marked in a pattern that repeats; an empty pattern marks all.
bool in_pattern(const std::vector<std::uint8_t>& pattern, std::int64_t layer);

/// Whether a layer has experts, and whether any layer has them, or has none.
bool has_experts(const Decoder& decoder, std::int64_t layer);
bool some_have_experts(const Decoder& decoder);
bool some_lack_experts(const Decoder& decoder);

/// Returns the roles of a block's modules in the order of their forward calls; `sparse` says that
/// the block has experts.
std::vector<Role> block_calls(const Decoder& decoder, bool sparse);
/// Whether a role belongs to a mixture of experts.
constexpr bool in_mixture(Role role) {
  return role >= Role::router && role <= Role::shared_router;
}

/// Whether backward of this product writes the gradient of its input first, so that the other
/// products that read the input add to it; and whether it does so last. A sublayer's output is the
/// only product that reads its input, and so are the second products of latents, whose inputs no
/// norm of the block makes.
bool begins_input_gradient(const Decoder& decoder, Role role);
bool ends_input_gradient(Role role);

/// Returns a module's name with the number of its layer in the place of the first "*".
std::string name_in_layer(std::string pattern, std::int64_t layer);

/// Whether an adapter can adapt the product of this role.
constexpr bool is_adaptable(Role role) {
  return projection_roles.contains(role) || role == Role::attn_proj || role == Role::mlp_proj;
}
/// Whether a module of this role multiplies its input by its weight.
constexpr bool is_linear(Role role) {
  constexpr RoleSet others{Role::head,      Role::router,      Role::shared_gate,
                           Role::shared_up, Role::shared_down, Role::shared_router,
                           Role::lora_a,    Role::lora_b};
  return is_adaptable(role) || others.contains(role);
}
/// The factors that an adapter puts beside the product of this role in a layer, and whether it puts
/// a trained copy in the place of a module; the layer is -1 for a module outside of layers.
LowRankSize low_rank_of(const Decoder& decoder, Role role, std::int64_t layer);
bool copies(const Decoder& decoder, Role role, std::int64_t layer);

/// The roles of all modules that a description needs, those of a block in between.
std::vector<Role> roles_of(const Decoder& decoder);
/// Returns the number of parameters that a module of this role has.
int tensors_of(const Decoder& decoder, Role role);
/// Whether modules of this role exist once for each layer.
constexpr bool in_block(Role role) {
  return !roles_outside_blocks.contains(role);
}

/// Whether a description has norms before attention and MLP alone, one sublayer after the other, no
/// norms of q and k, no sinks, no factor of the residual, no experts and no adapter: as GPT-2 and
/// Llama.
bool is_plain(const Decoder& decoder);

/// The inputs and outputs of a product, or the channels of a norm (`in` is 0).
struct Width {
  std::int64_t out = 0, in = 0;
};
/// Throws PlanError for a count beyond 63 bits. Of a model whose layers are divided, these are the
/// sizes of one part.
Width width_of(const ModelSpec& spec, Role role);

/// How AutoTP divides the modules of a role, which norms and embeddings are spared: not at all if
/// no layer is divided. Its preset for mixtures, the only one that AutoEP takes beside it, leaves
/// the head whole, too.
ProductCut cut_of(const ModelSpec& spec, Role role);
/// The outputs or inputs of a product that this rank has of `whole`: those of its heads of keys and
/// values in attention, and equal parts elsewhere.
/// Source: DeepSpeed 0.19.8's module_inject/tp_shard.py, get_shard_size.
struct CutRange {
  std::int64_t first = 0, count = 0, whole = 0;
};
CutRange cut_range(const ModelSpec& spec, Role role, std::int64_t whole);
/// Whether all ranks that divide layers have parts of the same sizes.
bool divides_evenly(const ModelSpec& spec);

/// Why the layers of a model cannot be divided among `ranks`; empty if they can. The sentence
/// begins with what the model has. Beside divided experts AutoTP divides attention alone.
std::string undividable(const ModelSpec& spec, std::int64_t ranks, bool experts_too = false);
/// Why the experts of a model's layers cannot be divided among `ranks`, worded likewise; empty if
/// they can.
std::string unspreadable(const ModelSpec& spec, std::int64_t ranks);
/// Why the samples of a model cannot be divided among `ranks`, worded likewise; empty if they can.
std::string unsplittable(const ModelSpec& spec, std::int64_t ranks);

}  // namespace shardmark
