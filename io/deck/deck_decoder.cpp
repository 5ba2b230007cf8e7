// SPDX-License-Identifier: Apache-2.0
// A model of the family `decoder`: the keys of its description, and whether they fit together.
#include <algorithm>

#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr RealRange positive{0, 1e12, true};
constexpr RealRange not_negative{0, 1e12};

// A pattern over the layers, which repeats: a list of true and false.
void read_pattern(KeyReader& reader, std::string_view name, std::vector<std::uint8_t>& pattern) {
  const Json* list = reader.any(name);
  if (list == nullptr) return;
  const char* what = "must be a list of true and false, one for each layer, which repeats";
  if (!list->is_array() || list->empty()) reader.refuse(name, *list, what);
  for (const Json& item : *list) {
    if (!item.is_boolean()) reader.refuse(name, item, what);
    pattern.push_back(item == true ? 1 : 0);
  }
}

void read_norm(KeyReader& r, NormSpec& n) {
  r.choice("kind", n.kind);
  r.choice("place", n.place);
  r.choice("of_q_and_k", n.qk);
  r.boolean("q_and_k_last", n.qk_last);
  r.boolean("weight", n.weight);
  r.boolean("bias", n.bias);
  r.boolean("unit_offset", n.unit_offset);
  r.real("eps", n.eps, positive);
}

void read_scaling(KeyReader& r, RotarySpec& s) {
  r.choice("kind", s.scaling);
  r.real("factor", s.factor, positive);
  r.integer("original_positions", s.original_positions, size_range);
  r.real("low_freq_factor", s.low_freq_factor, positive);
  r.real("high_freq_factor", s.high_freq_factor, positive);
  r.real("beta_fast", s.beta_fast, positive);
  r.real("beta_slow", s.beta_slow, positive);
  r.boolean("truncate", s.truncate);
  r.real("attention_factor", s.attention_factor, positive);
  const bool needs_positions =
      s.scaling == RotaryScaling::llama3 || s.scaling == RotaryScaling::yarn;
  if (needs_positions && s.original_positions == 0)
    r.missing("original_positions", "give the positions of pre-training");
}

void read_positions(KeyReader& r, PositionSpec& p) {
  r.choice("kind", p.kind);
  r.integer("rows", p.rows, size_range);
  r.integer("offset", p.offset, {0, size_range.max});
  r.real("base", p.rotary.base, positive);
  r.real("part", p.rotary.part, {0, 1, true});
  r.boolean("neighbours", p.rotary.neighbours);
  r.real("window_base", p.rotary.window_base, not_negative);
  r.section("scaling", [&](KeyReader& inner) { read_scaling(inner, p.rotary); });
  read_pattern(r, "rotates", p.rotates);
  r.real("alibi_factor", p.alibi_factor, positive);
}

void read_latent(KeyReader& r, LatentSpec& latent) {
  constexpr IntRange channels{1, 65536};
  r.need_integer("kv_rank", latent.kv_rank, channels);
  r.integer("q_rank", latent.q_rank, {0, channels.max});
  r.need_integer("plain_dim", latent.plain_dim, channels);
  r.need_integer("rotary_dim", latent.rotary_dim, {2, 512});
  r.need_integer("value_dim", latent.value_dim, channels);
  r.real("eps", latent.eps, positive);
}

void read_attention(KeyReader& r, AttentionSpec& a) {
  r.integer("head_dim", a.head_dim, {1, 65536});
  r.choice("qkv", a.qkv);
  r.boolean("qkv_bias", a.qkv_bias);
  r.boolean("bias", a.bias);
  r.integer("window", a.window, {0, size_range.max});
  read_pattern(r, "windowed", a.windowed);
  r.real("scale", a.scale, not_negative);
  r.real("softcap", a.softcap, not_negative);
  r.boolean("sinks", a.sinks);
  r.section("latent", [&](KeyReader& inner) { read_latent(inner, a.latent); });
}

void read_mlp(KeyReader& r, MlpSpec& m) {
  r.choice("activation", m.activation);
  r.boolean("gated", m.gated);
  r.boolean("joined", m.joined);
  r.boolean("bias", m.bias);
}

// Experts stand in the place of the MLP, and are as wide unless they say so.
void read_moe(KeyReader& r, MoeSpec& m, const ModelSpec& model) {
  m.ffn = model.ffn;
  r.need_integer("experts", m.experts, {1, 65536});
  r.integer("per_token", m.per_token, {1, 65536});
  r.integer("ffn", m.ffn, size_range);
  r.boolean("normalised", m.normalised);
  read_pattern(r, "layers", m.layers);
  r.text("class", m.block_class);
  r.integer("shared_ffn", m.shared_ffn, {0, size_range.max});
  r.boolean("shared_factor", m.shared_factor);
  r.choice("scores", m.scores);
  r.integer("groups", m.groups, {1, m.experts});
  r.integer("token_groups", m.token_groups, {1, m.groups});
  r.real("factor", m.factor, positive);
  r.real("balance_loss", m.balance_loss, not_negative);
  r.boolean("bias", m.bias);
  r.boolean("in_out", m.in_out);
  r.boolean("interleaved", m.interleaved);
  r.section("gate", [&](KeyReader& inner) {
    inner.real("limit", m.gate.limit, not_negative);
    inner.real("gain", m.gate.gain, positive);
    inner.real("offset", m.gate.offset, {-1e12, 1e12});
  });
  if (m.per_token > m.experts)
    r.refuse("per_token", m.per_token,
             fmt::format("must be at most {} = {}", r.key("experts"), m.experts));
}

void read_ends(KeyReader& r, EndsSpec& e, std::int64_t vocab) {
  r.boolean("embedding_norm", e.embedding_norm);
  r.boolean("head_bias", e.head_bias);
  r.real("embedding_factor", e.embedding_factor, positive);
  r.real("logits_factor", e.logits_factor, positive);
  r.real("logits_softcap", e.logits_softcap, not_negative);
  r.integer("padding_token", e.padding_token, {-1, vocab - 1});
}

// The names of Llama in transformers, for the modules that a description needs.
std::string usual_name(Role role) {
  const bool mlp = role == Role::fc || role == Role::gate || role == Role::up ||
                   role == Role::mlp_proj || in_mixture(role);
  const bool norm = role == Role::norm1 || role == Role::norm2 || role == Role::post_norm1 ||
                    role == Role::post_norm2;
  if (role == Role::sinks) return "layers.*.self_attn";
  const char* part = mlp ? "mlp." : norm ? "" : "self_attn.";
  return in_block(role) ? fmt::format("layers.*.{}{}", part, to_string(role))
                        : std::string(to_string(role));
}

std::optional<Role> role_named(std::string_view name) {
  for (const Role role : all_values<Role>)
    if (to_string(role) == name && role != Role::list) return role;
  return std::nullopt;
}

[[noreturn]] void refuse_role(KeyReader& r, const Json& item, const Decoder& d) {
  std::string known = "container";
  for (const Role role : roles_of(d)) known += fmt::format(", {}", to_string(role));
  r.refuse(
      "modules", item,
      "must be [name, role], where the role is one that the description has, or for a module "
      "without parameters [name, kind, role], where the kind is function, identity or constant, "
      "and the role that of the module that is called before: " +
          known);
}

// The module of sinks is the one around attention, whose own parameters come first.
void check_sinks(KeyReader& r, const Decoder& d) {
  if (!d.attention.sinks) return;
  const auto of_role = [&](Role role) {
    return std::ranges::find(d.modules, role, &DecoderModule::role);
  };
  const auto sinks = of_role(Role::sinks);
  const std::string inside = sinks->name + ".";
  const bool around = of_role(Role::attn_proj)->name.starts_with(inside);
  if (!around || std::any_of(d.modules.begin(), sinks,
                             [&](const DecoderModule& m) { return m.name.starts_with(inside); }))
    r.missing("modules", fmt::format("{}: the module of the role sinks must be "
                                     "around that of attn_proj, and listed before "
                                     "those inside of it",
                                     sinks->name));
}

// A module without parameters comes after the one that it lies in. Around others, it is a function
// that is listed once.
void check_bare(KeyReader& r, const Decoder& d) {
  for (auto m = d.modules.begin(); m != d.modules.end(); ++m) {
    if (m->bare == Bare::none) continue;
    const bool around = d.lists(m->name + ".");
    const bool taken = std::any_of(d.modules.begin(), d.modules.end(), [&](const DecoderModule& o) {
      return o.name == m->name && (o.bare == Bare::none || (around && &o != &*m));
    });
    const bool early = std::any_of(m, d.modules.end(), [&](const DecoderModule& o) {
      return o.role != Role::container && m->name.starts_with(o.name + ".");
    });
    const bool differs = std::any_of(d.modules.begin(), m, [&](const DecoderModule& o) {
      return o.name == m->name && o.bare != m->bare;
    });
    if (taken || early || differs || (around && m->bare != Bare::function))
      r.missing(
          "modules",
          fmt::format("{}: a module without parameters must have a name of its own and one kind, "
                      "and come after the module that it lies in; one around others must be a "
                      "function and be listed once",
                      m->name));
  }
}

// Every role once, the token embedding first, and the modules of the layers one after another.
void check_modules(KeyReader& r, const Decoder& d) {
  for (const Role role : roles_of(d)) {
    const auto count = std::ranges::count(d.modules, role, &DecoderModule::role);
    if (count != 1)
      r.missing("modules", fmt::format("the role {} must be listed once, and is listed {} times",
                                       to_string(role), count));
  }
  int changes = 0;
  bool before = false;
  for (const DecoderModule& m : d.modules) {
    const bool starred = m.name.find('*') != std::string::npos;
    const Role role = m.bare == Bare::none ? m.role : m.after;
    if (role != Role::container && starred != in_block(role))
      r.missing("modules",
                fmt::format("{}: a name has * for the number of the layer if its role, {}, exists "
                            "in each layer, and not otherwise",
                            m.name, to_string(role)));
    changes += starred != before;
    before = starred;
  }
  check_sinks(r, d);
  check_bare(r, d);
  if (changes > 2) r.missing("modules", "the modules with * in their names must follow each other");
  const auto first = std::find_if(d.modules.begin(), d.modules.end(),
                                  [](const DecoderModule& m) { return m.role != Role::container; });
  if (first->role != Role::token_embedding)
    r.missing("modules", "the token embedding must come first");
}

// [name, role], or [name, kind, role before] of a module without parameters.
std::optional<DecoderModule> read_module(const Json& item, const std::vector<Role>& needed) {
  const bool texts =
      item.is_array() && (item.size() == 2 || item.size() == 3) &&
      std::all_of(item.begin(), item.end(), [](const Json& text) { return text.is_string(); });
  const auto role = texts ? role_named(item.back().get<std::string>()) : std::nullopt;
  if (!role) return std::nullopt;
  DecoderModule module{.name = item[0].get<std::string>()};
  const bool needs = std::find(needed.begin(), needed.end(), *role) != needed.end();
  if (item.size() == 2) {
    module.role = *role;
    return needs || *role == Role::container ? std::optional(module) : std::nullopt;
  }
  module.after = *role;
  for (const Bare kind : {Bare::function, Bare::identity, Bare::constant})
    if (item[1] == to_string(kind)) module.bare = kind;
  return needs && module.bare != Bare::none ? std::optional(module) : std::nullopt;
}

void read_modules(KeyReader& r, Decoder& d) {
  const Json* list = r.any("modules");
  d.modules.clear();
  if (list == nullptr) {
    for (const Role role : roles_of(d)) d.modules.push_back({usual_name(role), role});
    return;
  }
  if (!list->is_array()) r.refuse("modules", *list, "must be a list");
  const std::vector<Role> needed = roles_of(d);
  for (const Json& item : *list) {
    const auto module = read_module(item, needed);
    if (!module) refuse_role(r, item, d);
    d.modules.push_back(*module);
  }
  check_modules(r, d);
}

void check_latent(KeyReader& r, const ModelSpec& m, const Decoder& d) {
  const LatentSpec& latent = d.attention.latent;
  if (!d.latent()) return;
  if (d.positions.kind != PositionKind::rotary || latent.rotary_dim % 2 != 0)
    r.refuse("attention.latent.rotary_dim", latent.rotary_dim,
             "must be pairs of channels, and needs rotary positions");
  if (d.positions.rotary.part != 1)
    r.refuse("positions.part", d.positions.rotary.part,
             "must be 1: attention.latent.rotary_dim says how many channels are rotated");
  if (latent.value_dim > latent.qk_dim())
    r.refuse("attention.latent.value_dim", latent.value_dim,
             fmt::format("must be at most plain_dim + rotary_dim = {}", latent.qk_dim()));
  if (m.kv_heads != m.heads)
    r.refuse(
        "kv_heads", m.kv_heads,
        fmt::format("must be as many as heads = {}: latent attention makes keys and values for "
                    "each head",
                    m.heads));
  if (d.attention.qkv != QkvLayout::separate || d.attention.sinks || d.norm.qk != QkNorm::none ||
      d.norm.kind != NormKind::rms || d.norm.place != NormPlace::before || d.parallel())
    r.refuse("attention.latent", latent.kv_rank,
             "needs attention.qkv \"separate\", RMSNorm before attention and MLP one after the "
             "other, and no sinks or norms of q and k");
}

void check_moe(KeyReader& r, const MoeSpec& m) {
  if (m.groups > 1 && m.experts % m.groups != 0)
    r.refuse("moe.groups", m.groups, fmt::format("must divide moe.experts = {}", m.experts));
  if (m.groups > 1 && m.experts / m.groups < 2)
    r.refuse("moe.groups", m.groups,
             "must be at most half of moe.experts: a group's score is the sum of two experts'");
  if (m.per_token > m.token_groups * (m.experts / m.groups) && m.groups > 1)
    r.refuse("moe.per_token", m.per_token,
             fmt::format("{} groups have only {} experts", m.token_groups,
                         m.token_groups * (m.experts / m.groups)));
}

void check_decoder(KeyReader& r, const ModelSpec& m, const Decoder& d) {
  if (d.attention.head_dim == 0 && !d.latent() && m.hidden % m.heads != 0)
    r.refuse("heads", m.heads,
             fmt::format("must divide {} = {}: change one of them, or give {}", r.key("hidden"),
                         m.hidden, r.key("attention.head_dim")));
  const std::int64_t head = d.attention.head_dim > 0 ? d.attention.head_dim : m.hidden / m.heads;
  // An odd number of channels rounds up to pairs, as in transformers.
  const auto turned =
      static_cast<std::int64_t>(static_cast<double>(head) * d.positions.rotary.part + 1e-6);
  const bool fits = turned > 0 && turned + turned % 2 <= std::min<std::int64_t>(head, 512);
  if (d.positions.kind == PositionKind::rotary && !d.latent() && !fits)
    r.refuse(
        "positions.part", d.positions.rotary.part,
        fmt::format("rotates {} of the {} channels of a head: must be pairs of its channels, and "
                    "at most 512",
                    turned, head));
  if (d.positions.kind == PositionKind::learned && d.positions.rows > 0 &&
      d.positions.rows < m.sequence + d.positions.offset)
    r.refuse("positions.rows", d.positions.rows,
             fmt::format("must be at least {} + positions.offset = {} + {}: give a sequence of at "
                         "most {}",
                         r.key("sequence"), m.sequence, d.positions.offset,
                         d.positions.rows - d.positions.offset));
  if (d.norm.qk != QkNorm::none && d.attention.qkv != QkvLayout::separate)
    r.refuse("norm.of_q_and_k", to_string(d.norm.qk), "needs attention.qkv \"separate\"");
  if (d.parallel() && d.norm.place != NormPlace::before)
    r.refuse("norm.place", to_string(d.norm.place), "a parallel block has its norms before");
  if (d.ends.embedding_norm && d.positions.kind == PositionKind::learned)
    r.refuse("ends.embedding_norm", true, "not modelled beside learned positions");
  if (d.moe.experts > 0 && (!d.mlp.gated || d.in_out))
    r.refuse("moe.experts", d.moe.experts, "needs mlp.gated true, and in_out false");
  check_latent(r, m, d);
  check_moe(r, d.moe);
  if (d.mlp.joined && !d.mlp.gated) r.refuse("mlp.joined", true, "needs mlp.gated");
  if (d.norm.kind == NormKind::rms && (!d.norm.weight || d.norm.bias))
    r.refuse("norm.kind", "rms", "must have a weight and no bias");
  if (m.tied_head && d.ends.head_bias)
    r.refuse("ends.head_bias", true, "not modelled beside a tied head");
}

}  // namespace

void read_decoder(KeyReader& reader, Deck& deck) {
  ModelSpec& model = deck.model;
  read_grouped(reader, deck, "decoder");
  Family like = Family::llama;
  reader.choice("like", like, {Family::gpt2, Family::llama});
  Decoder d = decoder_like(like);
  reader.real("init_std", d.init_std, positive);
  reader.boolean("in_out", d.in_out);
  reader.boolean("own_linear", d.own_linear);
  reader.choice("autotp", d.autotp);
  reader.section("norm", [&](KeyReader& r) { read_norm(r, d.norm); });
  reader.section("positions", [&](KeyReader& r) { read_positions(r, d.positions); });
  reader.section("attention", [&](KeyReader& r) { read_attention(r, d.attention); });
  reader.section("block", [&](KeyReader& r) {
    r.choice("kind", d.block.kind);
    r.boolean("norms_first", d.block.norms_first);
    r.real("residual_factor", d.block.residual_factor, positive);
  });
  reader.section("mlp", [&](KeyReader& r) { read_mlp(r, d.mlp); });
  reader.section("moe", [&](KeyReader& r) { read_moe(r, d.moe, model); });
  reader.choice("routing", d.moe.routing);
  reader.real("expert_room", d.moe.room, {1, 1e6});
  reader.section("ends", [&](KeyReader& r) { read_ends(r, d.ends, model.vocab); });
  check_decoder(reader, model, d);
  read_modules(reader, d);
  read_adapter(reader, model, d);
  model.decoder = SharedDecoder(std::move(d));
}

}  // namespace shardmark
