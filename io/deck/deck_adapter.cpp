// SPDX-License-Identifier: Apache-2.0
// The section `model.adapter`: which products get low-rank factors, and which modules are trained
// as copies. Names select products as PEFT's target_modules does: a list of names or of their ends,
// a pattern for the whole name, or "all-linear", which is every torch.nn.Linear but the head.
#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// Matching takes time in proportion to the pattern where the library can promise it. Otherwise
// "(.*)*x" needs longer than a run.
constexpr auto pattern_rules =
#if defined(__GLIBCXX__)
    std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
    std::regex::ECMAScript;
#endif
// The library reads groups inside of groups by recursion, and repeats what has a count.
constexpr std::size_t longest_pattern = 1000;

std::regex pattern_of(const Origin& origin, const std::string& key, const Json& given,
                      const std::string& text) {
  const bool bounded = text.size() <= longest_pattern && text.find('{') == std::string::npos;
  try {
    if (bounded) return std::regex(text, pattern_rules);
  } catch (const std::regex_error&) {
  }
  origin.refuse(key, given,
                fmt::format("must be a regular expression of ECMAScript of at most {} characters, "
                            "without counts in braces and references to groups: give names",
                            longest_pattern));
}

// Names that select modules, and which of them did.
class Names {
 public:
  // Names that selected nothing.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    std::ranges::copy_if(names_, std::back_inserter(names),
                         [&](const std::string& n) { return !used_.contains(n); });
    return names;
  }

 protected:
  std::vector<std::string> names_;
  std::set<std::string> used_;
};

// The names that `targets` selects.
class TargetNames : public Names {
 public:
  TargetNames(const Origin& origin, std::string key, const Json& targets)
      : all_(targets == "all-linear") {
    const char* what = "must be names of modules, one pattern for their names, or \"all-linear\"";
    if (targets.is_string() && !all_) {
      pattern_ = pattern_of(origin, key, targets, targets.get<std::string>());
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

 private:
  bool all_;
  std::optional<std::regex> pattern_;
};

// PEFT's rank_pattern and alpha_pattern: numbers of modules whose names, or ends of names after a
// dot, match a pattern.
class Patterns {
 public:
  Patterns(KeyReader& r, const char* name) : origin_(r.origin()), key_(r.key(name)) {
    const Json* given = r.any(name);
    if (given == nullptr) return;
    const char* what = "must be an object of patterns for names of modules and numbers above 0";
    if (!given->is_object()) origin_.refuse(key_, *given, what);
    for (const auto& [pattern, value] : given->items()) {
      if (!value.is_number() || !(value.get<double>() > 0)) origin_.refuse(key_, *given, what);
      rows_.push_back({pattern, pattern_of(origin_, key_, pattern, "(.*\\.)?(" + pattern + ")"),
                       value.get<double>()});
    }
  }
  bool empty() const { return rows_.empty(); }
  // PEFT takes the first one of the file, whose order a deck does not keep.
  double of(const std::string& module, double otherwise) const {
    const Row* found = nullptr;
    for (const Row& row : rows_) {
      if (!std::regex_match(module, row.pattern)) continue;
      if (found != nullptr && found->value != row.value)
        origin_.refuse(key_, row.text,
                       fmt::format("matches {}, as \"{}\" does: give patterns of which one matches "
                                   "a module",
                                   module, found->text));
      found = &row;
    }
    return found == nullptr ? otherwise : found->value;
  }

 private:
  struct Row {
    std::string text;
    std::regex pattern;
    double value;
  };
  const Origin& origin_;
  const std::string key_;
  std::vector<Row> rows_;
};

// The factors of each product: lora_alpha, or a scaling for all.
class Sizes {
 public:
  explicit Sizes(KeyReader& r) : ranks_(r, "rank_pattern"), alphas_(r, "alpha_pattern") {
    r.need_integer("rank", size_.rank, ranks);
    r.real("scaling", size_.scaling, RealRange{0, 1e12, true});
    r.real("alpha", alpha_, RealRange{0, 1e12, true});
    r.boolean("use_rslora", root_);
    if (!alpha_ && (root_ || !alphas_.empty()))
      r.missing("alpha", "use_rslora and alpha_pattern change the scaling by it");
    key_ = r.key("rank_pattern");
    if (alpha_) size_.scaling = scaling(*alpha_, size_.rank);
  }
  LowRankSize common() const { return size_; }
  LowRankSize of(const Origin& origin, const std::string& module) const {
    const double rank = ranks_.of(module, static_cast<double>(size_.rank));
    LowRankSize size{static_cast<std::int64_t>(rank), size_.scaling};
    if (rank != std::floor(rank) || rank > static_cast<double>(ranks.max))
      origin.refuse(key_, rank, "must be " + describe(ranks));
    if (alpha_) size.scaling = scaling(alphas_.of(module, *alpha_), size.rank);
    return size;
  }

 private:
  static constexpr IntRange ranks{1, 65536};
  double scaling(double alpha, std::int64_t rank) const {
    const auto rows = static_cast<double>(rank);
    return alpha / (root_ ? std::sqrt(rows) : rows);
  }
  LowRankSize size_;
  std::optional<double> alpha_;
  bool root_ = false;
  Patterns ranks_, alphas_;
  std::string key_;
};

// The layers that are adapted at all; empty: all of them.
std::set<std::int64_t> read_layers(KeyReader& r, std::int64_t layers) {
  std::set<std::int64_t> chosen;
  const Json* list = r.any("layers");
  if (list == nullptr) return chosen;
  const std::string what =
      fmt::format("must be a list of layers, integers from 0 to {}", layers - 1);
  if (!list->is_array() || list->empty()) r.refuse("layers", *list, what);
  for (const Json& layer : *list) {
    const auto index = as_integer(layer);
    if (!index || *index < 0 || *index >= layers) r.refuse("layers", layer, what);
    chosen.insert(*index);
  }
  return chosen;
}

bool exists(const Decoder& d, Role role, std::int64_t layer) {
  const std::vector<Role> calls = block_calls(d, has_experts(d, layer));
  return !in_block(role) || std::find(calls.begin(), calls.end(), role) != calls.end();
}

// The modules of which copies are trained. PEFT compares the ends of their names, even within a
// word.
class CopyNames : public Names {
 public:
  CopyNames(KeyReader& r, std::int64_t layers, const Decoder& decoder)
      : origin_(r.origin()), key_(r.key("modules_to_save")) {
    const Json* given = r.any("modules_to_save");
    if (given == nullptr) return;
    for (const Json& name : given->is_array() ? *given : Json::array({nullptr})) {
      if (!name.is_string() || name == "")
        origin_.refuse(key_, *given, "must be a list of names of modules");
      names_.push_back(name.get<std::string>());
    }
    for (const DecoderModule& m : decoder.modules) {
      const bool inside = m.role != Role::container && m.role != Role::sinks;
      for (std::size_t end = inside ? m.name.rfind('.') : m.name.size();
           end != std::string::npos && end > 0; end = m.name.rfind('.', end - 1))
        for (std::int64_t l = 0; l < (in_block(m.role) ? layers : 1); ++l)
          require_none(name_in_layer(m.name.substr(0, end), l));
    }
  }
  // `factors`: whether the adapter would put factors beside it.
  bool select(const std::string& module, Role role, bool factors) {
    for (const std::string& name : names_) {
      if (!module.ends_with(name)) continue;
      used_.insert(name);
      const bool whole = module == name || module.ends_with('.' + name);
      if (role == Role::experts || (factors && !whole))
        origin_.not_modelled(
            key_, name,
            fmt::format("a trained copy of {}, {}", module,
                        factors ? "which has factors, too: leave one of the two"
                                : "whose experts are tensors: leave the name out"));
      return true;
    }
    return false;
  }

 private:
  void require_none(const std::string& container) const {
    for (const std::string& name : names_)
      if (container.ends_with(name))
        origin_.not_modelled(key_, name,
                             fmt::format("a trained copy of {}, which has modules inside or no "
                                         "parameters: name the modules inside",
                                         container));
  }
  Origin& origin_;
  const std::string key_;
};

class TargetReader {
 public:
  TargetReader(KeyReader& reader, std::int64_t layers, const Decoder& decoder)
      : r_(reader),
        layers_(layers),
        decoder_(decoder),
        sizes_(reader),
        names_(reader.origin(), reader.key("targets"), targets()),
        copies_(reader, layers, decoder),
        chosen_(read_layers(reader, layers)) {}

  LowRankSize common() const { return sizes_.common(); }
  std::vector<AdapterTarget> read() {
    std::vector<AdapterTarget> found;
    bool factors = false;
    for (const DecoderModule& m : decoder_.modules) {
      if (m.role == Role::container) continue;
      AdapterTarget target{.role = m.role};
      bool any = false;
      for (std::int64_t l = 0; l < (in_block(m.role) ? layers_ : 1); ++l) {
        add(m, l, target);
        factors = factors || target.factors.back().rank > 0;
        any = any || target.factors.back().rank > 0 || target.copied.back() != 0;
      }
      if (any) found.push_back(std::move(target));
    }
    if (!factors)
      r_.refuse("targets", targets(),
                "no module has such a name: give names of the model's products, such as " +
                    quoted_products());
    note_unused("targets", names_);
    note_unused("modules_to_save", copies_);
    return found;
  }

 private:
  const Json& targets() {
    const Json* given = r_.any("targets");
    if (given == nullptr) r_.missing("targets", "give the names of the products to adapt");
    return *given;
  }
  void add(const DecoderModule& m, std::int64_t layer, AdapterTarget& target) {
    const std::string name = name_in_layer(m.name, layer);
    const bool there = exists(decoder_, m.role, layer);
    const bool chosen =
        there && (chosen_.empty() || chosen_.contains(layer)) && names_.select(name, m.role);
    const bool copy = there && copies_.select(name, m.role, chosen);
    target.copied.push_back(copy ? 1 : 0);
    target.factors.push_back(chosen && !copy ? factors(m, name) : LowRankSize{});
  }
  LowRankSize factors(const DecoderModule& m, const std::string& name) {
    if (!is_adaptable(m.role))
      r_.not_modelled(
          "targets", name,
          fmt::format("an adapter of a module of role {}: name products of attention and of the "
                      "MLP, such as {}",
                      to_string(m.role), quoted_products()));
    return sizes_.of(r_.origin(), name);
  }
  void note_unused(const char* key, const Names& names) {
    for (const std::string& name : names.unused())
      r_.origin().note(
          FindingKind::ignored, r_.key(key),
          fmt::format("\"{}\": no module has this name, or a name that ends so", name));
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
  const Sizes sizes_;
  TargetNames names_;
  CopyNames copies_;
  const std::set<std::int64_t> chosen_;
};

}  // namespace

void read_adapter(KeyReader& reader, const ModelSpec& model, Decoder& decoder) {
  if (reader.any("adapter") != nullptr && model.fit)
    reader.not_modelled("fit", *model.fit, "beside an adapter: give the number of layers");
  reader.section("adapter", [&](KeyReader& r) {
    AdapterSpec& a = decoder.adapter;
    r.choice("bias", a.bias);
    TargetReader targets(r, model.layers, decoder);
    a.targets = targets.read();
    a.size = targets.common();
    // PEFT's model contains the model that it adapts.
    for (DecoderModule& m : decoder.modules) m.name = "base_model.model." + m.name;
  });
}

}  // namespace shardmark
