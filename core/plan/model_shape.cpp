// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <core/plan/checked.hpp>
#include <core/plan/model_shape.hpp>

namespace shardmark {
namespace {

// Appends modules, parameters and units in registration order; keeps the running counts.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(const ModelSpec& spec) {
    shape_.spec = spec;
    shape_.modules.push_back({});  // the root
  }

  int module(std::string name, Role role, int parent) {
    Module m;
    m.name = std::move(name);
    m.first_param = static_cast<int>(shape_.params.size());
    m.parent = parent;
    m.unit = role == Role::container ? -1 : static_cast<int>(shape_.units.size()) - 1;
    m.role = role;
    shape_.modules.push_back(std::move(m));
    return static_cast<int>(shape_.modules.size()) - 1;
  }
  void alias(std::string name, Role role, int parent, int owner_param, int count) {
    Module& m = shape_.modules[module(std::move(name), role, parent)];
    m.tied_to = owner_param;
    m.tied_count = count;
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
  // A module of one weight [out, in] and a bias [out].
  void linear(const std::string& name, Role role, int parent, std::int64_t out, std::int64_t in,
              double std_dev, bool bias = true) {
    module(name, role, parent);
    param(name + ".weight", checked_mul(out, in, "model: " + name), Init::uniform, std_dev);
    if (bias) param(name + ".bias", out, Init::zeros);
  }
  void norm(const std::string& name, Role role, int parent, std::int64_t hidden, bool bias = true) {
    module(name, role, parent);
    param(name + ".weight", hidden, Init::ones);
    if (bias) param(name + ".bias", hidden, Init::zeros);
  }
  // The head: a weight of its own, or the token embedding's.
  void head(const std::string& name, const ModelSpec& s, double std_dev) {
    if (s.tied_head) {
      alias(name, Role::head, 0, 0, 1);
      shape_.units.back().also_reads.push_back(0);
    } else {
      linear(name, Role::head, 0, s.vocab, s.hidden, std_dev, false);
    }
  }
  ModelShape& shape() { return shape_; }

 private:
  ModelShape shape_;
};

constexpr double std_dev = 0.02;

// GPT-2: pre-LayerNorm, learned positions, biases everywhere but in the head.
ModelShape build_gpt2(const ModelSpec& s) {
  ShapeBuilder b(s);
  const double residual_std = std_dev / std::sqrt(2.0 * static_cast<double>(s.layers));
  const std::int64_t h = s.hidden;
  const std::int64_t h4 = checked_mul(4, h, "model.hidden");

  b.unit("embed", UnitKind::embeddings);
  b.module("wte", Role::token_embedding, 0);
  b.param("wte", checked_mul(s.vocab, h, "model.vocab"), Init::uniform, std_dev);
  b.module("wpe", Role::position_embedding, 0);
  b.param("wpe", checked_mul(s.sequence, h, "model.sequence"), Init::uniform, std_dev);

  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string name = "block" + std::to_string(l);
    b.unit(name, UnitKind::block);
    const int block = b.module(name, Role::container, 0);
    b.norm(name + ".ln_1", Role::norm1, block, h);
    const int attn = b.module(name + ".attn", Role::container, block);
    b.linear(name + ".attn.qkv", Role::qkv, attn, checked_mul(3, h, "model.hidden"), h, std_dev);
    b.linear(name + ".attn.proj", Role::attn_proj, attn, h, h, residual_std);
    b.norm(name + ".ln_2", Role::norm2, block, h);
    const int mlp = b.module(name + ".mlp", Role::container, block);
    b.linear(name + ".mlp.fc", Role::fc, mlp, h4, h, std_dev);
    b.linear(name + ".mlp.proj", Role::mlp_proj, mlp, h, h4, residual_std);
  }

  b.unit("head", UnitKind::head);
  b.norm("ln_f", Role::final_norm, 0, h);
  b.head("head", s, std_dev);
  return std::move(b.shape());
}

// Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU; no biases. Its arithmetic is
// not here yet, so its modules compute as a list's do.
ModelShape build_llama(const ModelSpec& s) {
  ShapeBuilder b(s);
  const double residual_std = std_dev / std::sqrt(2.0 * static_cast<double>(s.layers));
  const std::int64_t h = s.hidden;
  const std::int64_t kv = checked_mul(s.kv_heads, h / s.heads, "model.kv_heads");

  b.unit("embed", UnitKind::list);
  b.module("embed", Role::token_embedding, 0);
  b.param("embed", checked_mul(s.vocab, h, "model.vocab"), Init::uniform, std_dev);
  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string name = "block" + std::to_string(l);
    b.unit(name, UnitKind::list);
    const int block = b.module(name, Role::container, 0);
    auto linear = [&](const char* part, int parent, std::int64_t out, std::int64_t in, double std) {
      b.linear(name + part, Role::list, parent, out, in, std, false);
    };
    b.norm(name + ".input_norm", Role::list, block, h, false);
    const int attn = b.module(name + ".attn", Role::container, block);
    linear(".attn.q", attn, h, h, std_dev);
    linear(".attn.k", attn, kv, h, std_dev);
    linear(".attn.v", attn, kv, h, std_dev);
    linear(".attn.o", attn, h, h, residual_std);
    b.norm(name + ".post_norm", Role::list, block, h, false);
    const int mlp = b.module(name + ".mlp", Role::container, block);
    linear(".mlp.gate", mlp, s.ffn, h, std_dev);
    linear(".mlp.up", mlp, s.ffn, h, std_dev);
    linear(".mlp.down", mlp, h, s.ffn, residual_std);
  }
  b.unit("head", UnitKind::list);
  b.norm("norm", Role::list, 0, h, false);
  b.head("head", s, std_dev);
  return std::move(b.shape());
}

bool inside(const std::string& name, const std::string& container) {
  return name.size() > container.size() + 1 && name.compare(0, container.size(), container) == 0 &&
         name[container.size()] == '.';
}

// The listed container that holds `name`: the longest one whose name it extends; else the root.
int parent_of(const std::map<std::string, int>& index, const std::string& name) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1))
    if (auto it = index.find(name.substr(0, dot)); it != index.end()) return it->second;
  return 0;
}

// Modules, parameters and units of a list, in turn; keeps which container is open.
class ListBuilder {
 public:
  explicit ListBuilder(const ModelSpec& s)
      : spec_(s), b_(s), owner_of_(s.tied.begin(), s.tied.end()) {}

  ModelShape build() {
    for (const ListModule& m : spec_.modules) add(m);
    drop_empty_units();
    map_visits();
    return std::move(b_.shape());
  }

 private:
  void add(const ListModule& m) {
    if (m.name.empty()) {  // the root is there already; it may have parameters of its own
      index_of_.push_back(0);
      if (m.numels.empty()) return;
      b_.unit("root", UnitKind::list);
      Module& root = b_.shape().modules[0];
      root.first_param = static_cast<int>(b_.shape().params.size());
      root.role = Role::list;
      root.unit = static_cast<int>(b_.shape().units.size()) - 1;
      add_params("root", m);
      return;
    }
    open_unit(m);
    index_of_.push_back(static_cast<int>(b_.shape().modules.size()));
    const int parent = parent_of(by_name_, m.name);
    if (auto tie = owner_of_.find(m.name); tie != owner_of_.end())
      add_alias(m, tie->second, parent);
    else {
      b_.module(m.name, m.numels.empty() ? Role::container : Role::list, parent);
      add_params(m.name, m);
    }
    by_name_[m.name] = index_of_.back();
  }

  // A list's units: each outermost container with all that it holds; every other module its own.
  void open_unit(const ListModule& m) {
    if (!container_.empty() && inside(m.name, container_)) return;
    for (const std::string& closed : containers_)
      if (inside(m.name, closed))
        throw DeckError("model.modules: " + m.name + ": listed away from its container " + closed +
                        ": list what a container holds right after it");
    container_ = m.numels.empty() ? m.name : std::string{};
    if (!container_.empty()) containers_.push_back(container_);
    b_.unit(m.name, UnitKind::list);
  }

  void add_params(const std::string& name, const ListModule& m) {
    const int module = m.name.empty() ? 0 : static_cast<int>(b_.shape().modules.size()) - 1;
    for (std::size_t i = 0; i < m.numels.size(); ++i)
      b_.param(name + "." + std::to_string(i), m.numels[i], Init::uniform);
    b_.shape().modules[module].param_count = static_cast<int>(m.numels.size());
  }

  void add_alias(const ListModule& m, const std::string& owner_name, int parent) {
    const auto owner =
        std::find_if(b_.shape().modules.begin(), b_.shape().modules.end(),
                     [&](const Module& o) { return o.name == owner_name && o.param_count > 0; });
    if (owner == b_.shape().modules.end())
      throw DeckError("model.tied: " + owner_name +
                      ": no module of that name with parameters is listed before " + m.name);
    const int owner_unit = b_.shape().params[owner->first_param].unit;
    b_.alias(m.name, Role::list, parent, owner->first_param, owner->param_count);
    if (owner_unit != static_cast<int>(b_.shape().units.size()) - 1)
      b_.shape().units.back().also_reads.push_back(owner_unit);
  }

  // A unit without parameters of its own (an empty container, an alias alone) has nothing to shard.
  void drop_empty_units() {
    ModelShape& shape = b_.shape();
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
    for (Module& m : shape.modules)
      if (m.unit >= 0) m.unit = new_index[m.unit];
    shape.units = std::move(kept);
    if (shape.units.empty())
      throw DeckError("model.modules: no module has parameters: list at least one");
  }

  void map_visits() {
    for (Visit v : spec_.visits) {
      v.module = v.module == root_module ? 0 : index_of_[v.module];
      b_.shape().visits.push_back(v);
    }
    b_.shape().param_groups = spec_.param_groups;
  }

  const ModelSpec& spec_;
  ShapeBuilder b_;
  std::map<std::string, std::string> owner_of_;
  std::map<std::string, int> by_name_;
  std::vector<int> index_of_;  // in the shape, by module of the list
  std::string container_;      // the outermost one that is open now
  std::vector<std::string> containers_;
};

// Visits as the containers nest: forward pre- and post-order, backward its mirror image. The root
// and modules that are fed integers have no post-backward hook. Activation checkpointing is torch's
// (not re-entrant, with early stop): the first module whose backward needs a saved tensor runs its
// block forward again, up to itself.
class VisitWriter {
 public:
  VisitWriter(ModelShape& shape, bool recompute)
      : shape_(shape), recompute_(recompute), children_(shape.modules.size()) {
    for (std::size_t m = 1; m < shape.modules.size(); ++m)
      children_[shape.modules[m].parent].push_back(static_cast<int>(m));
  }
  void write() {
    forward(0);
    backward(0);
  }

 private:
  void visit(VisitKind kind, int module) { shape_.visits.push_back({kind, module}); }
  // Up to the pre-forward hook of `last`, where it is given. Returns whether it was reached.
  bool forward(int m, int last = -1) {
    visit(VisitKind::pre_forward, m);
    if (m == last) return true;
    for (int child : children_[m])
      if (forward(child, last)) return true;
    visit(VisitKind::post_forward, m);
    return false;
  }
  void backward(int m) {
    const Role role = shape_.modules[m].role;
    const bool checkpointed =
        recompute_ && m != 0 && shape_.modules[m].parent == 0 && role == Role::container;
    if (checkpointed) block_ = m;
    visit(VisitKind::pre_backward, m);
    if (block_ >= 0 && role != Role::container) {
      forward(block_, m);
      block_ = -1;
    }
    for (auto child = children_[m].rbegin(); child != children_[m].rend(); ++child)
      backward(*child);
    const bool fed_integers = role == Role::token_embedding || role == Role::position_embedding;
    if (m != 0 && !fed_integers) visit(VisitKind::post_backward, m);
  }

  ModelShape& shape_;
  const bool recompute_;
  int block_ = -1;  // a block that must run forward again before its backward can go on
  std::vector<std::vector<int>> children_;
};

bool is_linear(Role role) {
  return role == Role::qkv || role == Role::attn_proj || role == Role::fc || role == Role::mlp_proj;
}

}  // namespace

std::vector<int> ModelShape::params_of(int module) const {
  const Module& m = modules[module];
  const int first = m.tied_to >= 0 ? m.tied_to : m.first_param;
  std::vector<int> ids(m.tied_to >= 0 ? m.tied_count : m.param_count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int> ModelShape::computing(VisitKind kind) const {
  std::vector<int> order;
  bool in_backward = false;
  for (const Visit& v : visits) {
    in_backward = in_backward || v.kind == VisitKind::pre_backward;
    const bool again = kind == VisitKind::pre_forward && in_backward;  // a recomputation
    if (v.kind == kind && !again && modules[v.module].role != Role::container)
      order.push_back(v.module);
  }
  return order;
}

ModelShape build_model_shape(const ModelSpec& spec, bool recompute) {
  ModelShape shape = spec.family == Family::gpt2    ? build_gpt2(spec)
                     : spec.family == Family::llama ? build_llama(spec)
                                                    : ListBuilder(spec).build();
  if (shape.visits.empty()) VisitWriter(shape, recompute).write();
  if (shape.param_groups.empty()) {
    shape.param_groups.emplace_back(shape.params.size());
    std::iota(shape.param_groups[0].begin(), shape.param_groups[0].end(), 0);
  }
  return shape;
}

std::vector<int> gradient_ready_order(const ModelShape& model, bool weight_first) {
  std::vector<int> order = model.spec.gradient_ready_order;
  if (!order.empty()) return order;
  if (model.spec.family == Family::list) {
    order.resize(model.params.size());
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
  }
  for (int m : model.computing(VisitKind::pre_backward)) {
    const Module& module = model.modules[m];
    if (module.tied_to >= 0) continue;  // ready at its last use, the owner's
    std::vector<int> params = model.params_of(m);
    if (is_linear(module.role) && !weight_first) std::reverse(params.begin(), params.end());
    order.insert(order.end(), params.begin(), params.end());
  }
  return order;
}

}  // namespace shardmark
