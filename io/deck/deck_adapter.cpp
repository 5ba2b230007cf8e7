// SPDX-License-Identifier: Apache-2.0
// The section `model.adapter`: which products get low-rank factors. Names select them as PEFT's
// target_modules does: a list of names or of their ends, a pattern for the whole name, or
// "all-linear", which is every torch.nn.Linear but the head.
#include <algorithm>
#include <regex>
#include <set>

#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// The names that `targets` selects.
class TargetNames {
 public:
  TargetNames(const Origin& origin, std::string key, const Json& targets)
      : all_(targets == "all-linear") {
    const char* what = "must be names of modules, one pattern for their names, or \"all-linear\"";
    if (targets.is_string() && !all_) {
      try {
        pattern_ = std::regex(targets.get<std::string>());
      } catch (const std::regex_error&) {
        origin.refuse(key, targets, "must be a regular expression of ECMAScript: give names");
      }
    } else if (targets.is_array() && !targets.empty()) {
      for (const Json& name : targets) {
        if (!name.is_string()) origin.refuse(key, name, what);
        names_.push_back(name.get<std::string>());
      }
    } else if (!all_) {
      origin.refuse(key, targets, what);
    }
  }

  bool select(const std::string& module, Role role) {
    const bool shared = role >= Role::shared_gate && role <= Role::shared_router;
    if (all_) return is_adaptable(role) || shared;
    if (pattern_) return std::regex_match(module, *pattern_);
    bool found = false;
    for (const std::string& name : names_)
      if (module == name || module.ends_with("." + name)) {
        used_.insert(name);
        found = true;
      }
    return found;
  }
  // Names that selected nothing.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    std::copy_if(names_.begin(), names_.end(), std::back_inserter(names),
                 [&](const std::string& n) { return !used_.contains(n); });
    return names;
  }

 private:
  bool all_;
  std::optional<std::regex> pattern_;
  std::vector<std::string> names_;
  std::set<std::string> used_;
};

// The layers that are adapted at all; empty: all of them.
std::set<std::int64_t> read_layers(KeyReader& r, std::int64_t layers) {
  std::set<std::int64_t> chosen;
  const Json* list = r.any("layers");
  if (list == nullptr) return chosen;
  const std::string what =
      fmt::format("must be a list of layers, integers from 0 to {}", layers - 1);
  if (!list->is_array() || list->empty()) r.origin().refuse(r.key("layers"), *list, what);
  for (const Json& layer : *list) {
    const auto index = as_integer(layer);
    if (!index || *index < 0 || *index >= layers) r.origin().refuse(r.key("layers"), layer, what);
    chosen.insert(*index);
  }
  return chosen;
}

std::string name_in_layer(const std::string& pattern, std::int64_t layer) {
  std::string name = pattern;
  if (const std::size_t star = name.find('*'); star != std::string::npos)
    name.replace(star, 1, std::to_string(layer));
  return name;
}

bool exists(const Decoder& d, Role role, std::int64_t layer) {
  const std::vector<Role> calls = block_calls(d, has_experts(d, layer));
  return !in_block(role) || std::find(calls.begin(), calls.end(), role) != calls.end();
}

class TargetReader {
 public:
  TargetReader(KeyReader& reader, std::int64_t layers, const Decoder& decoder)
      : r_(reader),
        layers_(layers),
        decoder_(decoder),
        names_(reader.origin(), reader.key("targets"), targets()),
        chosen_(read_layers(reader, layers)) {}

  std::vector<AdapterTarget> read() {
    std::vector<AdapterTarget> found;
    for (const DecoderModule& m : decoder_.modules) {
      if (m.role == Role::container) continue;
      AdapterTarget target{.role = m.role};
      for (std::int64_t l = 0; l < (in_block(m.role) ? layers_ : 1); ++l)
        target.layers.push_back(selects(m, l) ? 1 : 0);
      const bool any = std::count(target.layers.begin(), target.layers.end(), 1) > 0;
      if (any) found.push_back(std::move(target));
    }
    if (found.empty())
      r_.origin().refuse(r_.key("targets"), targets(),
                         "no module has such a name: give names of the model's products, such as " +
                             quoted_products());
    for (const std::string& name : names_.unused())
      r_.origin().note(
          FindingKind::ignored, r_.key("targets"),
          fmt::format("\"{}\": no module has this name, or a name that ends so", name));
    return found;
  }

 private:
  const Json& targets() {
    const Json* given = r_.any("targets");
    if (given == nullptr)
      r_.origin().missing(r_.key("targets"), "give the names of the products to adapt");
    return *given;
  }
  bool selects(const DecoderModule& m, std::int64_t layer) {
    const bool chosen = chosen_.empty() || chosen_.contains(layer);
    const std::string name = name_in_layer(m.name, layer);
    if (!chosen || !exists(decoder_, m.role, layer) || !names_.select(name, m.role)) return false;
    if (!is_adaptable(m.role))
      r_.origin().not_modelled(
          r_.key("targets"), name,
          fmt::format("an adapter of a module of role {}: name products of attention and of the "
                      "MLP, such as {}",
                      to_string(m.role), quoted_products()));
    return true;
  }
  std::string quoted_products() const {
    std::string names;
    for (const DecoderModule& m : decoder_.modules)
      if (is_adaptable(m.role))
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ",
                             m.name.substr(m.name.rfind('.') + 1));
    return names;
  }

  KeyReader& r_;
  const std::int64_t layers_;
  const Decoder& decoder_;
  TargetNames names_;
  const std::set<std::int64_t> chosen_;
};

}  // namespace

void read_adapter(KeyReader& reader, const ModelSpec& model, Decoder& decoder) {
  if (reader.any("adapter") != nullptr && model.fit)
    reader.origin().not_modelled(reader.key("fit"), *model.fit,
                                 "beside an adapter: give the number of layers");
  reader.section("adapter", [&](KeyReader& r) {
    AdapterSpec& a = decoder.adapter;
    r.need_integer("rank", a.rank, {1, 65536});
    r.real("scaling", a.scaling, RealRange{0, 1e12, true});
    r.choice("bias", a.bias);
    a.targets = TargetReader(r, model.layers, decoder).read();
    // PEFT's model contains the model that it adapts.
    for (DecoderModule& m : decoder.modules) m.name = "base_model.model." + m.name;
  });
}

}  // namespace shardmark
