// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder, from its description: modules in registration order, which the names
// nest, and their tensors.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/shape_builder.hpp>

namespace shardmark {
namespace {

class DecoderBuilder {
 public:
  explicit DecoderBuilder(const ModelSpec& s)
      : spec_(s),
        decoder_(*decoder_of(s)),
        b_(s),
        calls_{block_calls(decoder_, false), block_calls(decoder_, true)} {}

  ModelShape build() {
    b_.unit("embed", UnitKind::embeddings);
    for (std::int64_t l = 0; l < spec_.layers; ++l)
      b_.unit("block" + std::to_string(l), UnitKind::block);
    b_.unit("head", UnitKind::head);
    const std::vector<DecoderModule> all = modules();
    for (auto m = all.begin(); m != all.end();) {
      const auto first = m;
      m = std::find_if_not(first, all.end(), of_layer);
      for (std::int64_t l = 0; l < spec_.layers; ++l)
        for (auto of = first; of != m; ++of) add(*of, l);
      for (; m != all.end() && !of_layer(*m); ++m) add(*m, -1);
    }
    if (decoder_.adapted()) freeze();
    return std::move(b_.shape());
  }

 private:
  // The modules in the order of registration. Where ranks divide experts, AutoEP replaces the
  // router and the experts by modules of its own, registers the router first, and renames the
  // shared expert.
  std::vector<DecoderModule> modules() const {
    std::vector<DecoderModule> all = decoder_.modules;
    if (!spec_.expert_part.cuts()) return all;
    const auto of = [&](Role role) {
      return std::ranges::find_if(all, [=](const auto& m) { return m.role == role; });
    };
    // AutoEP's experts have no module for their activation.
    const std::string inside = of(Role::experts)->name + '.';
    std::erase_if(all, [&](const DecoderModule& m) { return m.name.starts_with(inside); });
    const auto experts = of(Role::experts), router = of(Role::router);
    const std::string mixture = outer(experts->name);
    router->name = mixture + ".router.gate";
    const std::string shared = mixture + ".shared_expert";
    for (DecoderModule& m : all)
      if (m.name == shared || m.name.starts_with(shared + '.') || m.name.starts_with(shared + '_'))
        m.name.insert(shared.size(), "s");
    if (experts < router) std::rotate(experts, router, router + 1);
    return all;
  }
  static bool of_layer(const DecoderModule& m) { return m.name.find('*') != std::string::npos; }

  // The calls of a module, of its adapter's parts, and of modules without parameters after it.
  static constexpr int places = 8, first_bare = 4;

  // The container of a module, and those around it, with `*` still in the name.
  int container(const std::string& pattern, std::int64_t layer, bool called = true) {
    if (pattern.empty()) return 0;
    const std::string name = name_in_layer(pattern, layer);
    if (const auto it = containers_.find(name); it != containers_.end()) return it->second;
    const int parent = container(outer(pattern), layer);
    const int index = containers_[name] = b_.module(name, Role::container, parent);
    // A list of layers is never called; its elements are.
    b_.last().called = called && !decoder_.lists(pattern + ".*");
    b_.last().block = pattern.ends_with('*');
    return index;
  }
  static std::string outer(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string{} : name.substr(0, dot);
  }

  void add(const DecoderModule& m, std::int64_t layer) {
    if (m.bare != Bare::none) return add_bare(m, layer);
    if (m.role == Role::container) {
      container(m.name, layer, false);
      return;
    }
    if (layer >= 0 && place_of(m.role, layer) < 0) return;  // of layers of the other kind
    const bool copy = copies(decoder_, m.role, layer);
    const std::string pattern = copy ? m.name + ".modules_to_save.default" : m.name;
    b_.select_unit(unit_of(m.role, layer));
    if (copy) add_original(m, layer);
    const int parent = container(outer(pattern), layer, !copy);
    const std::string name = name_in_layer(pattern, layer);
    if (m.role == Role::experts)
      b_.shape().modules[parent].python_class =
          spec_.expert_part.cuts() ? "deepspeed.module_inject.auto_ep_layer.AutoEPMoELayer"
                                   : decoder_.moe.block_class;
    const int order = order_of(m.role, layer);
    if (low_rank_of(decoder_, m.role, layer).rank > 0) return add_adapted(m, layer, order);
    if (m.role == Role::head && spec_.tied_head && !copy) {
      b_.alias(name, Role::head, parent, 0, 1);
      b_.current_unit().also_reads.push_back(0);
    } else {
      const int index = b_.module(name, m.role, parent);
      if (m.role == Role::sinks || m.role == Role::experts) containers_[name] = index;
      add_params(name, m.role);
      if (copy) draw_as_original(m.role);
    }
    Module& module = b_.last();
    module.order = order;
    module.copy = copy;
    module.cut = cut_of(spec_, m.role);
    module.folded = (m.role == Role::router || m.role == Role::experts) && spec_.part.cuts() &&
                    spec_.expert_part.cuts();
    // These norms see the heads of this rank alone.
    module.in_parts = spec_.part.cuts() && (m.role == Role::q_norm || m.role == Role::k_norm);
    const bool embeds = m.role == Role::token_embedding || m.role == Role::position_embedding;
    module.input_gradient = !embeds && m.role != Role::sinks;
  }

  int unit_of(Role role, std::int64_t layer) const {
    const bool ends = role == Role::final_norm || role == Role::head;
    return static_cast<int>(layer >= 0 ? layer + 1 : ends ? spec_.layers + 1 : 0);
  }
  // After a module come the parts of its adapter and then the modules without parameters.
  int order_of(Role role, std::int64_t layer) const {
    return 256 * (unit_of(role, layer) + 1) + places * place_of(role, layer);
  }

  // A module without parameters, whose calls may be listed one by one.
  void add_bare(const DecoderModule& m, std::int64_t layer) {
    if (layer >= 0 && place_of(m.after, layer) < 0) return;
    Module& module = b_.shape().modules[container(m.name, layer)];
    module.bare = m.bare;
    if (decoder_.lists(m.name + '.')) return;
    const int after = order_of(m.after, layer);
    const int order = after + std::min(first_bare + bare_calls_[after]++, places - 1);
    module.calls.push_back({order, m.after, m.bare != Bare::constant});
  }

  // PEFT keeps the module that a trained copy replaces, and never calls it. Of a tied head it
  // shares the embedding's weight.
  void add_original(const DecoderModule& m, std::int64_t layer) {
    const std::string name = m.name + ".original_module";
    container(name, layer, false);
    if (m.role != Role::head || !spec_.tied_head) add_params(name_in_layer(name, layer), m.role);
  }
  // The copy begins with the values of the original, the parameters before its own.
  void draw_as_original(Role role) {
    std::vector<Param>& params = b_.shape().params;
    const int count = tensors_of(decoder_, role), first = static_cast<int>(params.size()) - count;
    const bool tied = role == Role::head && spec_.tied_head;
    for (int i = 0; i < count; ++i) params[first + i].drawn_as = tied ? 0 : first - count + i;
  }

  // What PEFT puts in the place of a product: a module around the product and its two factors. A
  // has the first values that PEFT gives it, and B begins as zeros.
  void add_adapted(const DecoderModule& m, std::int64_t layer, int order) {
    const int around = container(m.name, layer);
    const std::string base = name_in_layer(m.name, layer) + ".base_layer";
    b_.module(base, m.role, around);
    b_.last().adapted = true;
    b_.last().order = order;
    add_params(base, m.role);
    const Width w = width_of(spec_, m.role);
    container(m.name + ".lora_dropout", layer, false);
    const int index = container(m.name + ".lora_dropout.default", layer);
    Module& dropout = b_.shape().modules[index];
    dropout.bare = Bare::identity;
    dropout.adapts = m.role;
    dropout.calls = {{order + 1, m.role, true}};
    const auto add_factor = [&](Role role, const std::string& letter, int after) {
      const std::string list = m.name + ".lora_" + letter;
      const std::string name = name_in_layer(list, layer) + ".default";
      b_.module(name, role, container(list, layer, false));
      b_.last().adapts = m.role;
      b_.last().order = order + after;
      return name + ".weight";
    };
    const std::int64_t rank = low_rank_of(decoder_, m.role, layer).rank;
    const std::string a = add_factor(Role::lora_a, "A", 2);
    b_.shape().modules[around].reads_param = static_cast<int>(b_.shape().params.size());
    b_.param(a, {rank, w.in}, Init::uniform, 1 / std::sqrt(3 * static_cast<double>(w.in)));
    b_.param(add_factor(Role::lora_b, "B", 3), {w.out, rank}, Init::zeros);
  }
  void freeze() {
    const AdapterBias biases = decoder_.adapter.bias;
    for (const Module& m : b_.shape().modules) {
      if (m.adapts != Role::container || m.copy) continue;
      const bool trains_biases = (biases == AdapterBias::all && m.role != Role::container) ||
                                 (biases == AdapterBias::adapted && m.adapted);
      for (int id = m.first_param; id < m.first_param + m.param_count; ++id) {
        Param& p = b_.shape().params[id];
        if (!trains_biases || !p.name.ends_with(".bias")) p.use = ParamUse::frozen;
      }
    }
  }
  // The place of a module in the calls of its layer, or among those outside of layers; -1 if the
  // layer does not call it.
  int place_of(Role role, std::int64_t layer) const {
    std::span<const Role> calls = ends_;
    if (layer >= 0) calls = calls_[has_experts(decoder_, layer)];
    const auto call = std::ranges::find(calls, role);
    return call == calls.end() ? -1 : static_cast<int>(call - calls.begin());
  }

  // An expert's matrices follow those of the expert before it.
  void add_experts(const std::string& name) {
    const MoeSpec& moe = decoder_.moe;
    if (spec_.expert_part.cuts()) return add_divided_experts(name);
    const auto add = [&](const std::string& tensor, std::int64_t out, std::int64_t in, double std) {
      b_.param(tensor,
               moe.in_out ? std::vector{moe.experts, in, out} : std::vector{moe.experts, out, in},
               Init::uniform, std);
      if (moe.bias) b_.param(tensor + "_bias", {moe.experts, out}, Init::zeros);
    };
    add(name + ".gate_up_proj", 2 * moe.ffn, spec_.hidden, decoder_.init_std);
    add(name + ".down_proj", spec_.hidden, moe.ffn, last_std());
  }
  // This rank's experts, gate (w1) and up (w3) apart.
  void add_divided_experts(const std::string& name) {
    const AxisPart& part = spec_.expert_part;
    const std::int64_t own = decoder_.moe.experts / part.ranks, f = decoder_.moe.ffn;
    const std::int64_t h = spec_.hidden, matrix = f * h, first = part.rank * own * matrix;
    const auto add = [&](const char* tensor, std::int64_t out, std::int64_t in, double std_dev,
                         TensorSlice slice) {
      b_.param(name + tensor, {own, out, in}, Init::uniform, std_dev);
      b_.shape().params.back().slice = slice;
      b_.shape().params.back().holders = Holders::of_experts;
    };
    add(".w1", f, h, decoder_.init_std, {2 * first, matrix, 2 * matrix});
    add(".w2", h, f, last_std(), {first, own * matrix, decoder_.moe.experts * matrix});
    add(".w3", f, h, decoder_.init_std, {2 * first + matrix, matrix, 2 * matrix});
    b_.last().exchanged = true;
  }
  // The standard deviation of the weights at the end of a sublayer.
  double last_std() const {
    return decoder_.init_std / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  }

  void add_params(const std::string& name, Role role) {
    if (role == Role::experts) return add_experts(name);
    if (role == Role::sinks) return b_.param(name + ".sinks", {spec_.heads}, Init::zeros);
    const int tensors = tensors_of(decoder_, role);
    const Width w = width_of(spec_, role);
    if (w.in == 0 && !is_linear(role)) {  // a norm
      const Init ones = decoder_.norm.unit_offset ? Init::zeros : Init::ones;
      if (tensors > 0) b_.param(name + ".weight", {w.out}, ones);
    } else {
      const bool last =
          role == Role::attn_proj || role == Role::mlp_proj || role == Role::shared_down;
      const bool turned = decoder_.in_out && is_linear(role) && role != Role::head;
      const bool bare = spec_.family != Family::decoder && !is_linear(role);  // of embeddings
      b_.param(bare ? name : name + ".weight",
               turned ? std::vector{w.in, w.out} : std::vector{w.out, w.in}, Init::uniform,
               last ? last_std() : decoder_.init_std);
      cut(role, w.in);
    }
    if (tensors > 1) {
      b_.param(name + ".bias", {w.out}, Init::zeros);
      if (cut_of(spec_, role) == ProductCut::columns) cut(role, 1);
    }
  }
  // Notes which part of the whole the last parameter is, whose rows are outputs of `in` elements.
  void cut(Role role, std::int64_t in) {
    const ProductCut cut = cut_of(spec_, role);
    if (cut == ProductCut::none) return;
    ModelSpec whole = spec_;
    whole.part = {};
    const Width w = width_of(whole, role);
    const bool columns = cut == ProductCut::columns;
    const CutRange range = cut_range(spec_, role, columns ? w.out : w.in);
    const std::int64_t each = columns ? in : 1;
    b_.shape().params.back().slice = {range.first * each, range.count * each, range.whole * each};
  }

  const ModelSpec& spec_;
  const Decoder& decoder_;
  ShapeBuilder b_;
  const std::vector<Role> calls_[2];  // of blocks without and with experts
  static constexpr std::array ends_{Role::token_embedding, Role::position_embedding,
                                    Role::embedding_norm, Role::final_norm, Role::head};
  std::map<std::string, int> containers_;
  std::map<int, int> bare_calls_;  // by the order of the module that is called before
};

// Lets each parameter have the first values that it has in the whole model. Gate and up of an
// expert are one matrix there.
void draw_as_in(const ModelShape& whole, ModelShape& shape) {
  std::map<std::pair<int, Role>, int> first;  // by unit and role: a module's first parameter
  for (const Module& m : whole.modules)
    if (m.role != Role::container) first[{m.unit, m.role}] = m.first_param;
  for (const Module& m : shape.modules)
    for (int i = 0; i < m.param_count; ++i) {
      const int tensor = m.exchanged ? i % 2 : i;
      shape.params[m.first_param + i].drawn_as = first.at({m.unit, m.role}) + tensor;
    }
}

}  // namespace

ModelShape build_decoder(const ModelSpec& spec) {
  ModelShape shape = DecoderBuilder(spec).build();
  if (!spec.part.cuts() && !spec.expert_part.cuts()) return shape;
  ModelSpec undivided = spec;
  undivided.part = undivided.expert_part = {};
  const ModelShape whole = DecoderBuilder(undivided).build();
  shape.parameters = whole.elems;
  if (spec.expert_part.cuts()) draw_as_in(whole, shape);
  return shape;
}

}  // namespace shardmark
