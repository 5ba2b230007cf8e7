// SPDX-License-Identifier: Apache-2.0
// The keys of the section `model`, by family.
#include <io/deck/deck_keys.hpp>

namespace shardmark {
namespace {

using enum KeyType;
using M = ModelSpec;

// The extents of matrix products, and tokens, are 32-bit integers.
constexpr RealRange size_of_model{1, 2147483647}, layer_count{1, 100'000};
constexpr RealRange above_zero_factor{0, 1e12, true};
constexpr RealRange room_of_experts{1, 1e6};

// clang-format off
constexpr Key model_keys[] = {
    Key("config", text, "null", "the path of a Hugging Face model config or of its folder"),
    Key("family", in<&M::family>, "what kind of model this is").required(),
};

constexpr Key transformer_keys[] = {
    Key("fit", in<&M::fit>, "given in place of `layers`: ShardMark chooses the largest number of "
        "layers whose memory is within this fraction").within({0, 1, true}),
    Key("layers", in<&M::layers>, "the number of transformer blocks").within(layer_count)
        .required("fit").or_else("null"),
    Key("hidden", in<&M::hidden>, "the channels of a token").within(size_of_model).required(),
    Key("heads", in<&M::heads>, "the heads of attention").within(size_of_model).required(),
    Key("sequence", in<&M::sequence>, "the tokens of a sequence").within(size_of_model).required(),
    Key("vocab", in<&M::vocab>, "the tokens that there are").within(size_of_model).required(),
    Key("tied_head", in<&M::tied_head>, "the head uses the token embedding as its weight"),
};

constexpr Key key_heads_key("kv_heads", in<&M::kv_heads>, "the number of key and value heads");
constexpr Key ffn_key("ffn", in<&M::ffn>, "the width of the feed-forward layer");

constexpr Key llama_keys[] = {
    key_heads_key.within(size_of_model).if_absent("heads"),
    ffn_key.within(size_of_model).required(),
    Key("qkv_bias", in<&M::qkv_bias>, "the projections to q, k and v have biases"),
};

constexpr Key decoder_keys[] = {
    Key("like", word, "\"llama\"", "whose values absent keys have").one_of("gpt2|llama"),
    key_heads_key.within(size_of_model).if_absent("heads"),
    ffn_key.within(size_of_model).required(),
    Key("init_std", number, "0.02", "standard deviation of the first values").within(above_zero_factor),
    Key("in_out", boolean, "false", "the weights of the block's products are stored as [in][out]"),
    Key("norm", object, "null"),
    Key("positions", object, "null"),
    Key("attention", object, "null"),
    Key("block", object, "null"),
    Key("mlp", object, "null"),
    Key("moe", object, "null"),
    Key("routing", word, "\"learned\"", "which experts a token has").one_of("learned|balanced"),
    Key("expert_room", number, "2",
        "learned routing over ranks that divide experts: how many times the rows of balanced "
        "routing a rank has room for").within(room_of_experts),
    Key("ends", object, "null"),
    Key("modules", array, "null", "the modules in registration order"),
    Key("adapter", any, "null", "low-rank factors beside frozen weights (LoRA)"),
};

constexpr Key list_keys[] = {
    Key("modules", array, "null", "the modules in registration order")
        .if_absent("required for `list`"),
    Key("tied", array, "null", "pairs of an alias and its owner"),
    Key("visits", array, "null", "the order in which stage 3's hooks see the modules"),
    Key("gradient_ready_order", array, "null",
        "parameter indices in the order in which their gradients become ready"),
    Key("frozen", array, "null", "indices of the parameters without gradients"),
    Key("param_groups", array, "null", "the optimizer's parameter groups, as parameter indices"),
};
// clang-format on

}  // namespace

std::span<const Section> model_sections() {
  static constexpr Section sections[] = {
      {.path = "model", .keys = model_keys},
      {.path = "model", .keys = transformer_keys, .owner = "transformer"},
      {.path = "model", .keys = llama_keys, .owner = "llama"},
      {.path = "model", .keys = decoder_keys, .owner = "decoder"},
      {.path = "model", .keys = list_keys, .owner = "list"},
  };
  return sections;
}

}  // namespace shardmark
