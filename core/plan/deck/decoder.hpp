// SPDX-License-Identifier: Apache-2.0
// A decoder as data: everything in which one family of decoder-only transformers differs from
// another, apart from its sizes. core/plan/model derives modules, sizes, activations and work from
// it, and core/nn/models runs it. docs/decks.md explains the keys under which a deck gives it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <core/enum_array.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// LayerNorm subtracts the mean of a row, RMSNorm does not.
enum class NormKind : std::uint8_t { layer, rms };
template<>
inline constexpr auto value_names<NormKind> = name_list("layer", "rms");

/// Where a block has its norms: before attention and MLP, after them, or both.
enum class NormPlace : std::uint8_t { before, after, both };
template<>
inline constexpr auto value_names<NormPlace> = name_list("before", "after", "both");

/// The norms of queries and keys: none, over each head, or over all heads at once.
enum class QkNorm : std::uint8_t { none, head, all };
template<>
inline constexpr auto value_names<QkNorm> = name_list("none", "head", "all");

struct NormSpec {
  NormKind kind = NormKind::layer;
  NormPlace place = NormPlace::before;
  QkNorm qk = QkNorm::none;
  bool qk_last = false;  // the norms of q and k are called after all three projections
  bool weight = true, bias = true;
  bool unit_offset = false;  // the factor is 1 + weight, and weights begin as zeros
  double eps = 1e-5;
  bool operator==(const NormSpec&) const = default;
};

/// How a model knows the place of a token.
enum class PositionKind : std::uint8_t { none, learned, rotary, alibi };
template<>
inline constexpr auto value_names<PositionKind> = name_list("none", "learned", "rotary", "alibi");

/// How rotary frequencies are changed for sequences that are longer than in pre-training.
enum class RotaryScaling : std::uint8_t { none, linear, llama3, yarn };
template<>
inline constexpr auto value_names<RotaryScaling> = name_list("none", "linear", "llama3", "yarn");

struct RotarySpec {
  double base = 10000;
  double part = 1;          // of the channels of a head that are rotated
  bool neighbours = false;  // pairs are (2j, 2j + 1), not (j, j + half)
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn: bounds of the ramp are whole numbers
  double attention_factor = 1;                       // yarn: of cosines and sines
  std::int64_t original_positions = 0;               // llama3, yarn
  double window_base = 0;  // of layers with a window, unscaled; 0: they are as the others
  bool operator==(const RotarySpec&) const = default;
};
struct PositionSpec {
  PositionKind kind = PositionKind::learned;
  std::int64_t rows = 0;    // learned: of the table; 0: the sequence and the offset
  std::int64_t offset = 0;  // learned: the row of the first position
  RotarySpec rotary = {};
  std::vector<std::uint8_t> rotates = {};  // by layer, repeated: whether it rotates; empty: all
  double alibi_factor = 1;                 // of the slopes
  bool operator==(const PositionSpec&) const = default;
};

/// How q, k and v are projected: by three matrices, by one whose outputs are q | k | v, or by one
/// whose outputs are, for each key head, its query heads, the key and the value.
enum class QkvLayout : std::uint8_t { separate, joined, grouped };
template<>
inline constexpr auto value_names<QkvLayout> = name_list("separate", "joined", "grouped");

/// Latent attention: keys and values are products of a narrow latent, and so may queries be. A head
/// of queries and keys has `plain_dim` channels and then `rotary_dim` rotated ones, which for keys
/// come beside the latent and are the same in all heads.
struct LatentSpec {
  std::int64_t kv_rank = 0;  // channels of the latent of keys and values; 0: attention has none
  std::int64_t q_rank = 0;   // channels of the latent of queries; 0: they are one product
  std::int64_t plain_dim = 0, rotary_dim = 0;
  std::int64_t value_dim = 0;  // channels of a head of values
  double eps = 0;              // of the norms of the latents; 0: that of the other norms
  std::int64_t qk_dim() const { return plain_dim + rotary_dim; }
  bool operator==(const LatentSpec&) const = default;
};

struct AttentionSpec {
  std::int64_t head_dim = 0;  // 0: hidden / heads
  QkvLayout qkv = QkvLayout::joined;
  bool qkv_bias = true, bias = true;
  std::int64_t window = 0;                  // keys that a row sees, its own included; 0: all
  std::vector<std::uint8_t> windowed = {};  // by layer, repeated; empty: all
  double scale = 0;                         // of the scores; 0: 1 / sqrt(head_dim)
  double softcap = 0;                       // of the scores; 0: none
  bool sinks = false;  // each head has a score of its own beside those of its keys
  LatentSpec latent = {};
  bool operator==(const AttentionSpec&) const = default;
};

/// How attention and MLP follow each other: one on the output of the other, or both on the same
/// input, which one norm or two norms of its own prepare.
enum class BlockKind : std::uint8_t { sequential, parallel, parallel_two_norms };
template<>
inline constexpr auto value_names<BlockKind> = name_list("sequential", "parallel",
                                                         "parallel_two_norms");

struct BlockSpec {
  BlockKind kind = BlockKind::sequential;
  bool norms_first = false;    // both norms are called before attention
  double residual_factor = 1;  // of the outputs of attention and MLP
  bool operator==(const BlockSpec&) const = default;
};

/// `gelu` is the exact form, `gelu_tanh` its approximation.
enum class Activation : std::uint8_t { gelu_tanh, gelu, relu, silu };
template<>
inline constexpr auto value_names<Activation> = name_list("gelu_tanh", "gelu", "relu", "silu");

struct MlpSpec {
  Activation activation = Activation::gelu_tanh;
  bool gated = false;   // down(activation(gate(x)) * up(x))
  bool joined = false;  // gate and up are one matrix
  bool bias = true;
  bool operator==(const MlpSpec&) const = default;
};

/// Which experts a token has: those with the largest logits of its router, or by turns, so that all
/// experts have equally many tokens whatever the data.
enum class Routing : std::uint8_t { learned, balanced };
template<>
inline constexpr auto value_names<Routing> = name_list("learned", "balanced");

/// What a gate does besides its activation: with a limit, gain or offset it is g sigmoid(gain g)
/// times up + offset, where g is at most `limit`, and up between -limit and limit.
struct GateRule {
  double limit = 0;  // 0: none
  double gain = 1, offset = 0;
  bool plain() const { return limit == 0 && gain == 1 && offset == 0; }
  bool operator==(const GateRule&) const = default;
};

/// What a router makes of its logits: probabilities over all experts, or a number for each expert.
enum class Scores : std::uint8_t { softmax, sigmoid };
template<>
inline constexpr auto value_names<Scores> = name_list("softmax", "sigmoid");

/// A mixture of experts in the place of the MLP. Experts are MLPs with a gate, whose gate and up
/// are one matrix. A router's weights are its scores at the chosen experts; if they are normalised,
/// they are divided by their sum.
struct MoeSpec {
  std::int64_t experts = 0;    // of a layer; 0: no layer has any
  std::int64_t per_token = 1;  // how many experts a token has
  std::int64_t ffn = 0;        // the width of an expert
  bool normalised = false;     // the weights of a token add up to 1
  Routing routing = Routing::learned;
  // Where ranks divide experts and routing is learned: how many times the rows of balanced routing
  // a rank has room for. Routers that nothing balances come to prefer few experts.
  double room = 4;
  std::vector<std::uint8_t> layers = {};  // by layer, repeated: whether it has experts; empty: all
  std::string block_class = {};  // the Python class of the module around router and experts
  std::int64_t shared_ffn = 0;  // width of the shared expert, which every token uses; 0 without one
  bool shared_factor = true;    // its output has a factor, and it runs before the others
  bool shared_last = false;  // it runs after the others, too: so it does where ranks divide those
  Scores scores = Scores::softmax;
  // A token has experts of `token_groups` groups, those with the largest sums of two scores.
  std::int64_t groups = 1, token_groups = 1;
  double factor = 1;         // of the weights
  double balance_loss = 0;   // factor of the loss that balances the experts; 0: it is left out
  bool bias = false;         // of the router and of the experts
  bool in_out = false;       // the experts' weights are [in][out]
  bool interleaved = false;  // the outputs of gate and up alternate
  GateRule gate = {};
  bool shared_first() const { return shared_factor && !shared_last; }
  /// The module that a forward pass through the mixture begins with.
  Role begins() const {
    return shared_ffn > 0 && shared_first() ? Role::shared_gate : Role::router;
  }
  /// The module that a forward pass through the mixture ends with.
  Role ends() const {
    return shared_ffn == 0 ? Role::experts
           : shared_factor ? Role::shared_router
                           : Role::shared_down;
  }
  bool operator==(const MoeSpec&) const = default;
};

struct EndsSpec {
  bool embedding_norm = false, head_bias = false;
  double embedding_factor = 1, logits_factor = 1;
  double logits_softcap = 0;        // 0: none
  std::int64_t padding_token = -1;  // whose embedding gets no gradient; -1: none
  bool operator==(const EndsSpec&) const = default;
};

/// Where AutoTP learns how to divide the layers: from transformers' plan for the type; from names,
/// as it infers where there is no plan, and then it leaves the head whole; or nowhere, so that
/// DeepSpeed ends with an error.
enum class TensorPlan : std::uint8_t { planned, inferred, none };
template<>
inline constexpr auto value_names<TensorPlan> = name_list("planned", "inferred", "none");

/// Which biases an adapter trains: none, those of the products that it adapts, or all of the model.
enum class AdapterBias : std::uint8_t { none, adapted, all };
template<>
inline constexpr auto value_names<AdapterBias> = name_list("none", "adapted", "all");

/// The factors beside one product.
struct LowRankSize {
  std::int64_t rank = 0;  // the rows of A and the columns of B; 0: there are none
  double scaling = 1;
  bool operator==(const LowRankSize&) const = default;
};

/// What an adapter does to the modules of one role.
struct AdapterTarget {
  Role role = Role::q;
  std::vector<LowRankSize> factors = {};  // by layer; of a module outside of layers one alone
  std::vector<std::uint8_t> copied = {};  // likewise: whether a trained copy stands in its place
  bool operator==(const AdapterTarget&) const = default;
};

/// Low-rank factors beside frozen weights (LoRA), as PEFT builds them: the product W x becomes
/// W x + scaling B (A x). Everything is frozen but the factors, copies of some modules, which are
/// called in their place, and some biases.
struct AdapterSpec {
  LowRankSize size;  // of products without a size of their own; a rank of 0: there is no adapter
  AdapterBias bias = AdapterBias::none;
  std::vector<AdapterTarget> targets = {};
  bool operator==(const AdapterSpec&) const = default;
};

/// What a module without parameters does: a `function` whose backward needs values that its forward
/// saved, such as an activation, or dropout that a module around others applies itself at its end;
/// an `identity`, such as dropout with a probability of 0; or a `constant`, whose output has no
/// gradient, such as the angles of rotary positions.
enum class Bare : std::uint8_t { none, function, identity, constant };
template<>
inline constexpr auto value_names<Bare> = name_list("none", "function", "identity", "constant");

/// One module by its name, in which `*` is the number of the layer. A container is listed only if
/// it is never called, or if it is bare: a module without parameters, which nothing computes here,
/// but which DeepSpeed's hooks see. It is listed once for each of its calls, and once if it is
/// around other modules.
struct DecoderModule {
  std::string name;
  Role role = Role::container;
  Bare bare = Bare::none;
  Role after = Role::container;  // of a bare module: the role of the module that is called before
  bool operator==(const DecoderModule&) const = default;
};

/// The description.
struct Decoder {
  NormSpec norm;
  PositionSpec positions;
  AttentionSpec attention;
  BlockSpec block;
  MlpSpec mlp;
  MoeSpec moe;
  EndsSpec ends;
  AdapterSpec adapter;
  double init_std = 0.02;  // of weights; output projections have it over sqrt(2 layers)
  bool in_out = false;     // weights of the block's products are [in][out]
  // These products are of a class of the model's own, not torch's linear function, like those with
  // in_out: DeepSpeed's memory-efficient one does not take their place.
  bool own_linear = false;
  TensorPlan autotp = TensorPlan::planned;
  std::vector<DecoderModule> modules;  // in registration order
  bool operator==(const Decoder&) const = default;

  bool norms_before() const { return norm.place != NormPlace::after; }
  bool norms_after() const { return norm.place != NormPlace::before; }
  bool latent() const { return attention.latent.kv_rank > 0; }
  bool adapted() const { return adapter.size.rank > 0; }
  bool parallel() const { return block.kind != BlockKind::sequential; }
  /// Whether the name of any module begins so.
  bool lists(const std::string& beginning) const {
    return std::ranges::any_of(modules,
                               [&](const auto& m) { return m.name.starts_with(beginning); });
  }
};

/// A description that copies of a model's sizes share. It is compared by value.
class SharedDecoder {
 public:
  SharedDecoder() : SharedDecoder(Decoder{}) {}
  explicit SharedDecoder(Decoder d) : decoder_(std::make_shared<const Decoder>(std::move(d))) {}
  const Decoder& operator*() const { return *decoder_; }
  const Decoder* operator->() const { return decoder_.get(); }
  bool operator==(const SharedDecoder& other) const { return **this == *other; }

 private:
  std::shared_ptr<const Decoder> decoder_;
};

}  // namespace shardmark
