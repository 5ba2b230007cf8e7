// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <core/plan/checked.hpp>
#include <core/plan/model_shape.hpp>

namespace shardmark {
namespace {

// Appends modules, parameters and units in registration order; keeps the running counts.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(const ModelSpec& spec) { shape_.spec = spec; }

  void module(std::string name) {
    shape_.modules.push_back({std::move(name), static_cast<int>(shape_.params.size()), 0, -1});
  }
  void alias(std::string name, int owner_param) {
    module(std::move(name));
    shape_.modules.back().tied_to = owner_param;
  }
  void param(std::string name, std::int64_t elems, Init init, double std_dev = 0.02) {
    Param p{std::move(name), elems, shape_.elems, static_cast<int>(shape_.units.size()) - 1, init,
            std_dev};
    shape_.elems = checked_add(shape_.elems, elems, "model: parameters");
    Unit& u = shape_.units.back();
    u.elems += elems;
    ++u.param_count;
    ++shape_.modules.back().param_count;
    shape_.params.push_back(std::move(p));
  }
  void unit(std::string name, UnitKind kind) {
    shape_.units.push_back(
        {std::move(name), kind, static_cast<int>(shape_.params.size()), 0, 0, shape_.elems, {}});
  }
  ModelShape& shape() { return shape_; }

 private:
  ModelShape shape_;
};

// A module of one weight [out, in] and, unless `bias` is Init::uniform, a bias [out].
void linear(ShapeBuilder& b, const std::string& name, std::int64_t out, std::int64_t in,
            double std_dev) {
  b.module(name);
  b.param(name + ".weight", checked_mul(out, in, "model: " + name), Init::uniform, std_dev);
  b.param(name + ".bias", out, Init::zeros);
}

void layer_norm(ShapeBuilder& b, const std::string& name, std::int64_t hidden) {
  b.module(name);
  b.param(name + ".weight", hidden, Init::ones);
  b.param(name + ".bias", hidden, Init::zeros);
}

// GPT-2: pre-LayerNorm, learned positions, biases everywhere but in the head.
ModelShape build_gpt2(const ModelSpec& s) {
  ShapeBuilder b(s);
  constexpr double std_dev = 0.02;
  const double residual_std = std_dev / std::sqrt(2.0 * static_cast<double>(s.layers));
  const std::int64_t h = s.hidden;
  const std::int64_t h4 = checked_mul(4, h, "model.hidden");

  b.unit("embed", UnitKind::embeddings);
  b.module("wte");
  b.param("wte", checked_mul(s.vocab, h, "model.vocab"), Init::uniform, std_dev);
  b.module("wpe");
  b.param("wpe", checked_mul(s.sequence, h, "model.sequence"), Init::uniform, std_dev);

  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string block = "block" + std::to_string(l);
    b.unit(block, UnitKind::block);
    b.module(block);
    layer_norm(b, block + ".ln_1", h);
    b.module(block + ".attn");
    linear(b, block + ".attn.qkv", checked_mul(3, h, "model.hidden"), h, std_dev);
    linear(b, block + ".attn.proj", h, h, residual_std);
    layer_norm(b, block + ".ln_2", h);
    b.module(block + ".mlp");
    linear(b, block + ".mlp.fc", h4, h, std_dev);
    linear(b, block + ".mlp.proj", h, h4, residual_std);
  }

  b.unit("head", UnitKind::head);
  layer_norm(b, "ln_f", h);
  if (s.tied_head) {
    b.alias("head", 0);
    b.shape().units.back().also_reads.push_back(0);
  } else {
    b.module("head");
    b.param("head.weight", checked_mul(s.vocab, h, "model.vocab"), Init::uniform, std_dev);
  }
  return std::move(b.shape());
}

bool inside(const std::string& name, const std::string& container) {
  return name.size() > container.size() + 1 && name.compare(0, container.size(), container) == 0 &&
         name[container.size()] == '.';
}

// A list's units: each outermost container with all that it holds; every other module its own.
ModelShape build_list(const ModelSpec& s) {
  ShapeBuilder b(s);
  std::map<std::string, std::string> owner_of(s.tied.begin(), s.tied.end());
  std::map<std::string, int> unit_of_container;
  std::string container;  // the one that is open now
  for (const ListModule& m : s.modules) {
    if (m.name.empty()) {
      b.module(m.name);
      if (m.numels.empty()) continue;  // the root
    }
    const bool in_open = !container.empty() && inside(m.name, container);
    if (!in_open) {
      for (const auto& [closed, unit] : unit_of_container)
        if (inside(m.name, closed))
          throw DeckError("model.modules: " + m.name + ": listed away from its container " +
                          closed + ": list what a container holds right after it");
      container = m.numels.empty() ? m.name : std::string{};
      b.unit(m.name.empty() ? "root" : m.name, UnitKind::list);
      if (!container.empty())
        unit_of_container[container] = static_cast<int>(b.shape().units.size()) - 1;
    }
    if (!m.name.empty()) {
      if (auto tie = owner_of.find(m.name); tie != owner_of.end()) {
        const auto owner = std::find_if(
            b.shape().modules.begin(), b.shape().modules.end(),
            [&](const Module& o) { return o.name == tie->second && o.param_count > 0; });
        if (owner == b.shape().modules.end())
          throw DeckError("model.tied: " + tie->second +
                          ": no module of that name with parameters" + " is listed before " +
                          m.name);
        const int first = owner->first_param;
        const int owner_unit = b.shape().params[first].unit;
        b.alias(m.name, first);
        if (owner_unit != static_cast<int>(b.shape().units.size()) - 1)
          b.shape().units.back().also_reads.push_back(owner_unit);
        continue;
      }
      b.module(m.name);
    }
    for (std::size_t i = 0; i < m.numels.size(); ++i)
      b.param(m.name + "." + std::to_string(i), m.numels[i], Init::uniform);
  }
  // A unit without parameters of its own (an empty container, an alias alone) has nothing to shard,
  // but an alias still reads its owner; only units that do neither are dropped.
  ModelShape& shape = b.shape();
  std::vector<int> new_index(shape.units.size(), -1);
  std::vector<Unit> kept;
  for (std::size_t u = 0; u < shape.units.size(); ++u) {
    if (shape.units[u].param_count == 0) continue;
    new_index[u] = static_cast<int>(kept.size());
    kept.push_back(std::move(shape.units[u]));
  }
  for (Unit& u : kept)
    for (int& r : u.also_reads) r = new_index[r];
  for (Param& p : shape.params) p.unit = new_index[p.unit];
  shape.units = std::move(kept);
  if (shape.units.empty())
    throw DeckError("model.modules: no module has parameters: list at least one");
  return std::move(shape);
}

}  // namespace

ModelShape build_model_shape(const ModelSpec& spec) {
  return spec.family == Family::gpt2 ? build_gpt2(spec) : build_list(spec);
}

}  // namespace shardmark
