// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {
namespace {

Decoder gpt2() {
  Decoder d;
  d.modules = {{"wte", Role::token_embedding},
               {"wpe", Role::position_embedding},
               {"block*.ln_1", Role::norm1},
               {"block*.attn.qkv", Role::qkv},
               {"block*.attn.proj", Role::attn_proj},
               {"block*.ln_2", Role::norm2},
               {"block*.mlp.fc", Role::fc},
               {"block*.mlp.proj", Role::mlp_proj},
               {"ln_f", Role::final_norm},
               {"head", Role::head}};
  return d;
}

Decoder llama(bool qkv_bias) {
  Decoder d;
  d.norm.kind = NormKind::rms;
  d.norm.bias = false;
  d.positions.kind = PositionKind::rotary;
  d.attention.qkv = QkvLayout::separate;
  d.attention.qkv_bias = qkv_bias;
  d.attention.bias = false;
  d.mlp = {.activation = Activation::silu, .gated = true, .bias = false};
  d.modules = {{"embed", Role::token_embedding},  {"block*.input_norm", Role::norm1},
               {"block*.attn.q", Role::q},        {"block*.attn.k", Role::k},
               {"block*.attn.v", Role::v},        {"block*.attn.o", Role::attn_proj},
               {"block*.post_norm", Role::norm2}, {"block*.mlp.gate", Role::gate},
               {"block*.mlp.up", Role::up},       {"block*.mlp.down", Role::mlp_proj},
               {"norm", Role::final_norm},        {"head", Role::head}};
  return d;
}

}  // namespace

const SharedDecoder& decoder_of(const ModelSpec& spec) {
  static const SharedDecoder of_gpt2(gpt2()), of_llama(llama(false)), of_biased_llama(llama(true));
  switch (spec.family) {
    case Family::gpt2: return of_gpt2;
    case Family::llama: return spec.qkv_bias ? of_biased_llama : of_llama;
    case Family::decoder: return spec.decoder;
    case Family::list: break;
  }
  throw PlanError("model.family " + std::string(to_string(spec.family)) + ": is not a transformer");
}

Decoder decoder_like(Family family) {
  return family == Family::gpt2 ? gpt2() : llama(false);
}

std::int64_t kv_heads_of(const ModelSpec& spec) {
  return spec.family == Family::gpt2 ? spec.heads : spec.kv_heads;
}
std::int64_t ffn_of(const ModelSpec& spec) {
  return spec.family == Family::gpt2 ? checked_mul(4, spec.hidden, "model.hidden") : spec.ffn;
}
std::int64_t head_dim_of(const ModelSpec& spec) {
  const AttentionSpec& attention = decoder_of(spec)->attention;
  if (attention.latent.kv_rank > 0) return attention.latent.qk_dim();
  const std::int64_t own = attention.head_dim;
  return own > 0 ? own : spec.hidden / spec.heads;
}

bool in_pattern(const std::vector<std::uint8_t>& pattern, std::int64_t layer) {
  return pattern.empty() || pattern[static_cast<std::size_t>(layer) % pattern.size()] != 0;
}

bool has_experts(const Decoder& d, std::int64_t layer) {
  return d.moe.experts > 0 && in_pattern(d.moe.layers, layer);
}
bool some_have_experts(const Decoder& d) {
  const std::vector<std::uint8_t>& layers = d.moe.layers;
  return d.moe.experts > 0 &&
         (layers.empty() || std::ranges::any_of(layers, [](auto l) { return l; }));
}
bool some_lack_experts(const Decoder& d) {
  const std::vector<std::uint8_t>& layers = d.moe.layers;
  return d.moe.experts == 0 || !std::ranges::all_of(layers, [](auto l) { return l; });
}

bool begins_input_gradient(const Decoder& d, Role role) {
  constexpr RoleSet always{Role::attn_proj, Role::mlp_proj, Role::fc,  Role::up,
                           Role::kv_a,      Role::q_b,      Role::kv_b};
  // The MLP of a parallel block has read the same norm and comes first in backward.
  constexpr RoleSet unless_parallel{Role::qkv, Role::v};
  return always.contains(role) ||
         (unless_parallel.contains(role) && d.block.kind != BlockKind::parallel);
}

bool ends_input_gradient(Role role) {
  constexpr RoleSet last{Role::attn_proj, Role::mlp_proj, Role::fc, Role::gate,
                         Role::qkv,       Role::q,        Role::q_a};
  return last.contains(role);
}

namespace {

// What an adapter does to the modules of a role; null: nothing.
const AdapterTarget* target_of(const Decoder& d, Role role) {
  const std::vector<AdapterTarget>& targets = d.adapter.targets;
  const auto t = std::ranges::find(targets, role, &AdapterTarget::role);
  return t == targets.end() ? nullptr : &*t;
}
// The value of a layer, or the only one of a module outside of layers.
template<class T>
T value_of(const std::vector<T>& by_layer, std::int64_t layer) {
  return by_layer[static_cast<std::size_t>(std::max<std::int64_t>(layer, 0)) % by_layer.size()];
}

}  // namespace

LowRankSize low_rank_of(const Decoder& d, Role role, std::int64_t layer) {
  const AdapterTarget* t = target_of(d, role);
  return t == nullptr ? LowRankSize{} : value_of(t->factors, layer);
}
bool copies(const Decoder& d, Role role, std::int64_t layer) {
  const AdapterTarget* t = target_of(d, role);
  return t != nullptr && value_of(t->copied, layer) != 0;
}

std::string name_in_layer(std::string pattern, std::int64_t layer) {
  if (const std::size_t star = pattern.find('*'); star != std::string::npos)
    pattern.replace(star, 1, std::to_string(layer));
  return pattern;
}

std::vector<Role> block_calls(const Decoder& d, bool sparse) {
  const bool q_norm = d.norm.qk != QkNorm::none;
  const bool second_norm = d.norms_before() && d.block.kind != BlockKind::parallel;
  std::vector<Role> calls;
  const auto add = [&](bool condition, std::initializer_list<Role> roles) {
    if (condition) calls.insert(calls.end(), roles);
  };
  add(d.norms_before(), {Role::norm1});
  add(second_norm && d.block.norms_first, {Role::norm2});
  add(d.attention.sinks, {Role::sinks});
  if (d.latent()) {
    const bool narrow = d.attention.latent.q_rank > 0;
    add(narrow, {Role::q_a, Role::q_a_norm, Role::q_b});
    add(!narrow, {Role::q});
    add(true, {Role::kv_a, Role::kv_a_norm, Role::kv_b});
  } else if (d.attention.qkv != QkvLayout::separate) {
    add(true, {Role::qkv});
  } else if (q_norm && !d.norm.qk_last) {
    add(true, {Role::q, Role::q_norm, Role::k, Role::k_norm, Role::v});
  } else {
    add(true, {Role::q, Role::k, Role::v});
    add(q_norm, {Role::q_norm, Role::k_norm});
  }
  add(true, {Role::attn_proj});
  add(d.norms_after(), {Role::post_norm1});
  add(second_norm && !d.block.norms_first, {Role::norm2});
  const bool shared = sparse && d.moe.shared_ffn > 0, first = d.moe.shared_first();
  add(shared && first, {Role::shared_gate, Role::shared_up, Role::shared_down});
  add(sparse, {Role::router, Role::experts});
  add(shared && !first, {Role::shared_gate, Role::shared_up, Role::shared_down});
  add(shared && d.moe.shared_factor, {Role::shared_router});
  add(!sparse && d.mlp.gated && !d.mlp.joined, {Role::gate, Role::up});
  add(!sparse && (!d.mlp.gated || d.mlp.joined), {Role::fc});
  add(!sparse, {Role::mlp_proj});
  add(d.norms_after(), {Role::post_norm2});
  return calls;
}

std::vector<Role> roles_of(const Decoder& d) {
  std::vector<Role> roles{Role::token_embedding};
  if (d.positions.kind == PositionKind::learned) roles.push_back(Role::position_embedding);
  if (d.ends.embedding_norm) roles.push_back(Role::embedding_norm);
  const bool dense = some_lack_experts(d);
  for (const Role role : block_calls(d, !dense)) roles.push_back(role);
  if (dense && some_have_experts(d))
    for (const Role role : block_calls(d, true))
      if (in_mixture(role)) roles.push_back(role);
  roles.insert(roles.end(), {Role::final_norm, Role::head});
  return roles;
}

int tensors_of(const Decoder& d, Role role) {
  switch (role) {
    case Role::container:
    case Role::list: return 0;
    case Role::token_embedding:
    case Role::position_embedding:
    case Role::sinks: return 1;
    case Role::q:
      if (d.latent()) return 1;
      [[fallthrough]];
    case Role::qkv:
    case Role::k:
    case Role::v:
    case Role::q_a:
    case Role::kv_a: return d.attention.qkv_bias ? 2 : 1;
    case Role::q_b:
    case Role::kv_b: return 1;
    case Role::attn_proj: return d.attention.bias ? 2 : 1;
    case Role::fc:
    case Role::gate:
    case Role::up:
    case Role::mlp_proj: return d.mlp.bias ? 2 : 1;
    case Role::head: return d.ends.head_bias ? 2 : 1;
    case Role::router: return d.moe.bias ? 2 : 1;
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::shared_router: return 1;
    case Role::experts: return d.moe.bias ? 4 : 2;
    default: return !d.norm.weight ? 0 : d.norm.bias ? 2 : 1;
  }
}

bool is_plain(const Decoder& d) {
  return d.norm.place == NormPlace::before && d.norm.qk == QkNorm::none && !d.parallel() &&
         d.block.residual_factor == 1 && !d.attention.sinks && !d.latent() && d.moe.experts == 0 &&
         !d.adapted();
}

ProductCut cut_of(const ModelSpec& s, Role role) {
  if (!s.part.cuts()) return ProductCut::none;
  // DeepSpeed leaves a tied head whole, and the head of ranks that divide experts too.
  if (role == Role::head &&
      (s.tied_head || s.expert_part.cuts() || decoder_of(s)->autotp == TensorPlan::inferred))
    return ProductCut::none;
  constexpr RoleSet columns{Role::qkv, Role::q,    Role::k,  Role::v,
                            Role::fc,  Role::gate, Role::up, Role::head};
  constexpr RoleSet rows{Role::attn_proj, Role::mlp_proj};
  return columns.contains(role) ? ProductCut::columns
         : rows.contains(role)  ? ProductCut::rows
                                : ProductCut::none;
}

namespace {

Width whole_width_of(const ModelSpec& s, Role role) {
  const Decoder& d = *decoder_of(s);
  const std::int64_t head = head_dim_of(s), h = s.hidden, ffn = ffn_of(s);
  const LatentSpec& latent = d.attention.latent;
  const std::int64_t q = checked_mul(s.heads, head, "model.heads");
  const std::int64_t kv = checked_mul(kv_heads_of(s), head, "model.kv_heads");
  switch (role) {
    case Role::token_embedding:
    case Role::head: return {s.vocab, h};
    case Role::position_embedding:
      return {d.positions.rows > 0 ? d.positions.rows
                                   : checked_add(s.sequence, d.positions.offset, "model.sequence"),
              h};
    case Role::qkv: return {checked_add(q, checked_mul(2, kv, "model.hidden"), "model.hidden"), h};
    case Role::q: return {q, h};
    case Role::k:
    case Role::v: return {kv, h};
    case Role::attn_proj:
      return {h, d.latent() ? checked_mul(s.heads, latent.value_dim, "model.heads") : q};
    case Role::q_a: return {latent.q_rank, h};
    case Role::q_a_norm: return {latent.q_rank, 0};
    case Role::q_b: return {q, latent.q_rank};
    case Role::kv_a: return {latent.kv_rank + latent.rotary_dim, h};
    case Role::kv_a_norm: return {latent.kv_rank, 0};
    case Role::kv_b:
      return {checked_mul(s.heads, latent.plain_dim + latent.value_dim, "model.heads"),
              latent.kv_rank};
    case Role::fc: return {d.mlp.gated ? checked_mul(2, ffn, "model.ffn") : ffn, h};
    case Role::gate:
    case Role::up: return {ffn, h};
    case Role::mlp_proj: return {h, ffn};
    case Role::q_norm: return {d.norm.qk == QkNorm::head ? head : q, 0};
    case Role::k_norm: return {d.norm.qk == QkNorm::head ? head : kv, 0};
    case Role::router: return {d.moe.experts, h};
    case Role::experts: {
      const std::int64_t one = checked_mul(3, d.moe.ffn, "model.moe.ffn");
      return {checked_mul(d.moe.experts, one, "model.moe.experts"), h};
    }
    case Role::shared_gate:
    case Role::shared_up: return {d.moe.shared_ffn, h};
    case Role::shared_down: return {h, d.moe.shared_ffn};
    case Role::shared_router: return {1, h};
    case Role::sinks: return {s.heads, 0};
    default: return {h, 0};
  }
}

}  // namespace

Width width_of(const ModelSpec& spec, Role role) {
  Width w = whole_width_of(spec, role);
  switch (cut_of(spec, role)) {
    case ProductCut::columns: w.out = cut_range(spec, role, w.out).count; break;
    case ProductCut::rows: w.in = cut_range(spec, role, w.in).count; break;
    case ProductCut::none: break;
  }
  return w;
}

bool divides_evenly(const ModelSpec& s) {
  const std::int64_t ranks = s.part.ranks;
  if (ranks == 1) return true;
  return kv_heads_of(s) % ranks == 0 && (s.expert_part.cuts() || ffn_of(s) % ranks == 0) &&
         (cut_of(s, Role::head) == ProductCut::none || s.vocab % ranks == 0);
}

CutRange cut_range(const ModelSpec& spec, Role role, std::int64_t whole) {
  constexpr RoleSet of_heads{Role::qkv, Role::q, Role::k, Role::v, Role::attn_proj};
  const std::int64_t units = of_heads.contains(role) ? kv_heads_of(spec) : whole;
  const std::int64_t each = whole / units;
  return {each * spec.part.first(units), each * spec.part.share(units), whole};
}

}  // namespace shardmark
