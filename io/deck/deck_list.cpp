// SPDX-License-Identifier: Apache-2.0
// A model of family `list`: any model, described by the parameter counts of its modules and the
// order in which DeepSpeed's hooks would visit them. Only the schedule `deepspeed` uses that order
// and the parameter groups; for `paper` they are checked but not used.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t max_numel = std::int64_t{1} << 60;
constexpr std::size_t max_modules = 1'000'000;

std::int64_t read_size(Origin& origin, const std::string& key, const Json& value) {
  const IntRange range{1, max_numel};
  const auto n = as_integer(value);
  if (!n || *n < range.min || *n > range.max)
    origin.refuse(key, value, "must be " + describe(range));
  return *n;
}

// The sizes of each parameter, slowest dimension first. PyTorch's FSDP cuts along one of them.
void read_shapes(Origin& origin, const std::string& key, const Json& shapes, ListModule& module) {
  if (!shapes.is_array()) origin.refuse(key, shapes, "must be an array of shapes");
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string at = fmt::format("{}.{}", key, i);
    if (!shapes[i].is_array() || shapes[i].empty())
      origin.refuse(at, shapes[i], "must be an array of at least one size, for example [64, 16]");
    std::vector<std::int64_t>& shape = module.shapes.emplace_back();
    std::int64_t numel = 1;
    for (const Json& size : shapes[i]) {
      shape.push_back(read_size(origin, at, size));
      if (numel > max_numel / shape.back())
        origin.refuse(at, shapes[i], fmt::format("must have at most {} elements", max_numel));
      numel *= shape.back();
    }
    module.numels.push_back(numel);
  }
}

ListModule read_module(Origin& origin, const Json& value, const std::string& key) {
  ListModule module;
  KeyReader reader(origin, value, key);
  const Json* name = reader.any("name");
  if (!name) reader.missing("name", "give the module's name; \"\" is the root");
  if (!name->is_string()) reader.refuse("name", *name, "must be a string");
  module.name = name->get<std::string>();
  if (const Json* python_class = reader.any("class")) {
    if (!python_class->is_string() || python_class->get<std::string>().empty())
      reader.refuse("class", *python_class,
                    "must be the name of a Python class, for example \"torch.nn.Linear\"");
    module.python_class = python_class->get<std::string>();
  }
  if (const Json* shapes = reader.any("shapes")) {
    read_shapes(origin, reader.key("shapes"), *shapes, module);
    if (const Json* both = reader.any("numels"))
      reader.refuse("numels", *both, "follows from shapes: remove one of the two");
    reader.finish();
    return module;
  }
  const Json* numels = reader.any("numels");
  if (!numels)
    reader.missing("numels", "give its parameters' element counts, [] for a container, or shapes");
  if (!numels->is_array()) reader.refuse("numels", *numels, "must be an array of element counts");
  for (std::size_t i = 0; i < numels->size(); ++i)
    module.numels.push_back(
        read_size(origin, fmt::format("{}.{}", reader.key("numels"), i), (*numels)[i]));
  reader.finish();
  return module;
}

// The modules by name, for checks of keys that refer to them.
using ByName = std::map<std::string, std::size_t>;

ByName read_modules(KeyReader& reader, ModelSpec& model) {
  const std::string key = reader.key("modules");
  const Json* modules = reader.any("modules");
  if (!modules) reader.missing("modules", "give the modules in registration order");
  if (!modules->is_array() || modules->empty() || modules->size() > max_modules)
    reader.refuse("modules", *modules,
                  fmt::format("must be an array of 1 to {} modules", max_modules));
  ByName by_name;
  bool any_numels = false;
  for (std::size_t i = 0; i < modules->size(); ++i) {
    const std::string at = fmt::format("{}.{}", key, i);
    model.modules.push_back(read_module(reader.origin(), (*modules)[i], at));
    const ListModule& module = model.modules.back();
    any_numels = any_numels || !module.numels.empty();
    if (!by_name.emplace(module.name, i).second)
      reader.origin().refuse(at + ".name", module.name,
                             fmt::format("is also the name of {}.{}: names must differ", key,
                                         by_name.at(module.name)));
  }
  if (!any_numels)
    reader.refuse("modules", *modules, "no module has parameters: give one of them a numels");
  return by_name;
}

void read_tied(KeyReader& reader, ModelSpec& model, const ByName& by_name) {
  const Json* tied = reader.any("tied");
  if (!tied) return;
  if (!tied->is_array()) reader.refuse("tied", *tied, "must be an array of [alias, owner] pairs");
  std::set<std::string> aliases;
  for (std::size_t i = 0; i < tied->size(); ++i) {
    const Json& pair = (*tied)[i];
    const std::string at = fmt::format("tied.{}", i);
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      reader.refuse(at, pair, "must be a pair of module names, [alias, owner]");
    for (const Json& name : pair)
      if (!by_name.contains(name.get<std::string>()))
        reader.refuse(at, pair,
                      fmt::format("no module is named {}: list it in {}", brief(name),
                                  reader.key("modules")));
    const auto alias = pair[0].get<std::string>(), owner = pair[1].get<std::string>();
    const auto a = by_name.at(alias), o = by_name.at(owner);
    if (model.modules[a].numels != model.modules[o].numels || model.modules[a].numels.empty())
      reader.refuse(at, pair, "both must have the same numels, at least one: correct them");
    if (o >= a)
      reader.refuse(at, pair, "the owner must be listed before its alias: swap the two names");
    if (!aliases.insert(alias).second)
      reader.refuse(at, pair, fmt::format("{} is tied twice: remove one pair", brief(pair[0])));
    model.tied.emplace_back(alias, owner);
  }
  for (const auto& [alias, owner] : model.tied)
    if (aliases.contains(owner))
      reader.refuse(
          "tied", *tied,
          fmt::format("\"{}\" is both an alias and an owner: tie \"{}\" to the owner of both",
                      owner, alias));
}

// Returns the lists of a JSON array. Each index in 0..count-1 may occur once over all lists.
std::vector<std::vector<int>> read_indices(const KeyReader& reader, std::string_view key,
                                           const std::vector<const Json*>& lists,
                                           std::int64_t count) {
  std::vector<bool> seen(static_cast<std::size_t>(count));
  std::vector<std::vector<int>> result;
  for (const Json* list : lists) {
    if (!list->is_array()) reader.refuse(key, *list, "must be an array of parameter indices");
    if (list->empty()) reader.refuse(key, *list, "must not be empty: list some parameters");
    std::vector<int>& indices = result.emplace_back();
    for (const Json& entry : *list) {
      const auto index = as_integer(entry);
      if (!index || *index < 0 || *index >= count)
        reader.refuse(key, entry, fmt::format("must be a parameter index from 0 to {}", count - 1));
      if (seen[static_cast<std::size_t>(*index)])
        reader.refuse(key, entry, "this parameter is listed twice: list each once");
      seen[static_cast<std::size_t>(*index)] = true;
      indices.push_back(static_cast<int>(*index));
    }
  }
  return result;
}

// Frozen parameters have no gradient. At least one parameter must have one.
void read_frozen(KeyReader& reader, ModelSpec& model, Schedule schedule, std::int64_t params) {
  const Json* frozen = reader.any("frozen");
  if (!frozen || (frozen->is_array() && frozen->empty())) return;
  model.frozen = read_indices(reader, "frozen", {frozen}, params).front();
  if (static_cast<std::int64_t>(model.frozen.size()) == params)
    reader.refuse("frozen", *frozen, "all parameters are frozen: leave one to be trained");
  if (!traits(schedule).follows_deepspeed && !traits(schedule).follows_torch)
    reader.not_modelled("frozen", *frozen, "remove the key, or set run.schedule to \"deepspeed\"");
}

// The order leaves out parameters whose gradients no backward makes, frozen ones among them.
void read_ready_order(KeyReader& reader, ModelSpec& model, Schedule schedule, std::int64_t params) {
  constexpr std::string_view key = "gradient_ready_order";
  const Json* order = reader.any(key);
  if (!order) return;
  model.gradient_ready_order = read_indices(reader, key, {order}, params).front();
  const std::set<int> frozen(model.frozen.begin(), model.frozen.end());
  for (int id : model.gradient_ready_order)
    if (frozen.contains(id))
      reader.refuse(key, id,
                    "this parameter is frozen, so it has no gradient: remove it here, or "
                    "from model.frozen");
  const auto listed = static_cast<std::int64_t>(model.gradient_ready_order.size());
  if (listed < params && !traits(schedule).follows_deepspeed && !traits(schedule).follows_torch)
    throw DeckError(fmt::format(
        "{}: {} of {} parameters are listed, and only the schedule \"deepspeed\" models parameters "
        "without gradients: list each once",
        reader.origin().place(reader.key(key)), listed, params));
}

// Every parameter that is not frozen must be in a group, and no group may be without such.
void read_groups(KeyReader& reader, ModelSpec& model, std::int64_t params) {
  constexpr std::string_view key = "param_groups";
  const Json* groups = reader.any(key);
  if (!groups) return;
  if (!groups->is_array()) reader.refuse(key, *groups, "must be an array of arrays of indices");
  std::vector<const Json*> lists;
  for (const Json& group : *groups) lists.push_back(&group);
  model.param_groups = read_indices(reader, key, lists, params);
  const std::set<int> frozen(model.frozen.begin(), model.frozen.end());
  std::int64_t found = 0;
  for (std::size_t g = 0; g < model.param_groups.size(); ++g) {
    const auto updated =
        std::ranges::count_if(model.param_groups[g], [&](int id) { return !frozen.contains(id); });
    if (updated == 0)
      reader.refuse(fmt::format("{}.{}", key, g), (*groups)[g],
                    "all its parameters are frozen: remove the group");
    found += updated;
  }
  const std::int64_t wanted = params - static_cast<std::int64_t>(frozen.size());
  if (found != wanted)
    throw DeckError(fmt::format("{}: {} of {} parameters are listed: list each once",
                                reader.origin().place(reader.key(key)), found, wanted));
}

std::vector<Visit> read_visits(Origin& origin, const std::string& key, const Json& visits,
                               const ByName& by_name) {
  static const std::map<std::string, VisitKind> kinds{{"f+", VisitKind::pre_forward},
                                                      {"f-", VisitKind::post_forward},
                                                      {"b+", VisitKind::pre_backward},
                                                      {"b-", VisitKind::post_backward}};
  if (!visits.is_array() || visits.empty())
    origin.refuse(key, visits, "must be an array of visits such as \"f+h.0\"");
  std::vector<Visit> result;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const std::string at = fmt::format("{}.{}", key, i);
    const auto text = visits[i].is_string() ? visits[i].get<std::string>() : std::string();
    const auto kind = kinds.find(text.substr(0, 2));
    if (kind == kinds.end())
      origin.refuse(at, visits[i], "must be f+, f-, b+ or b- followed by a module's name");
    const std::string name = text.substr(2);
    const auto module = by_name.find(name);
    if (!name.empty() && module == by_name.end())
      origin.refuse(at, visits[i],
                    fmt::format("no module is named \"{}\": list it in model.modules", name));
    result.push_back({kind->second, name.empty() ? root_module : static_cast<int>(module->second)});
  }
  return result;
}

// The modules with a parameter whose gradient the order lists. An alias makes those of its owner.
std::set<std::size_t> modules_with_gradients(const ModelSpec& model) {
  const std::map<std::string, std::string> owner_of(model.tied.begin(), model.tied.end());
  const std::set<int> frozen(model.frozen.begin(), model.frozen.end());
  const std::set<int> ready(model.gradient_ready_order.begin(), model.gradient_ready_order.end());
  std::set<std::size_t> found;
  std::set<std::string> names;
  int id = 0;
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    const ListModule& m = model.modules[i];
    const auto owner = owner_of.find(m.name);
    bool any = owner != owner_of.end() && names.contains(owner->second);
    if (owner == owner_of.end())
      for (std::size_t n = 0; n < m.numels.size(); ++n, ++id)
        any = any || (!frozen.contains(id) && (ready.empty() || ready.contains(id)));
    if (!any) continue;
    found.insert(i);
    names.insert(m.name);
  }
  return found;
}

// A module whose gradients become ready must be computed forward once before any backward, and
// backward; a module that is computed backward must have been computed forward. PyTorch's schedule
// accepts modules that do not run at all.
void check_visits(Origin& origin, const std::string& key, const ModelSpec& model,
                  bool all_must_run) {
  const std::set<std::size_t> trained = modules_with_gradients(model);
  std::set<int> forward, backward;
  for (const Visit& v : model.visits) {
    if (v.kind == VisitKind::pre_forward && backward.empty()) forward.insert(v.module);
    if (v.kind == VisitKind::pre_backward) backward.insert(v.module);
  }
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    const ListModule& m = model.modules[i];
    if (m.numels.empty()) continue;
    const int module = m.name.empty() ? root_module : static_cast<int>(i);
    const bool runs = forward.contains(module), back = backward.contains(module);
    if (runs ? back || !trained.contains(i) : !back && (!trained.contains(i) || !all_must_run))
      continue;
    throw DeckError(fmt::format("{}: \"{}\" has parameters and no \"{}{}\"{}: add it",
                                origin.place(key), m.name, runs ? "b+" : "f+", m.name,
                                runs ? "" : " before the first \"b+\""));
  }
}

std::int64_t count_params(const ModelSpec& model) {
  std::set<std::string> aliases;
  for (const auto& [alias, owner] : model.tied) aliases.insert(alias);
  std::int64_t count = 0;
  for (const ListModule& module : model.modules)
    if (!aliases.contains(module.name)) count += static_cast<std::int64_t>(module.numels.size());
  return count;
}

}  // namespace

void read_list(KeyReader& reader, Deck& deck) {
  ModelSpec& model = deck.model;
  const Schedule schedule = deck.run.schedule;
  reader.read(deck_keys("model", "list"), deck);
  Origin& origin = reader.origin();
  const ByName by_name = read_modules(reader, model);
  read_tied(reader, model, by_name);
  const std::int64_t params = count_params(model);
  const auto used_by = [&](bool used, const char* name, const Json& value) {
    if (!used)
      origin.note(FindingKind::no_effect, reader.key(name),
                  fmt::format("{}: affects only the schedule \"deepspeed\", not \"{}\"",
                              brief(value), to_string(schedule)));
  };
  const bool deepspeed = traits(schedule).follows_deepspeed;
  const bool has_hooks = deepspeed || traits(schedule).follows_torch;
  read_frozen(reader, model, schedule, params);
  read_ready_order(reader, model, schedule, params);
  read_groups(reader, model, params);
  if (const Json* order = reader.any("gradient_ready_order"))
    used_by(has_hooks, "gradient_ready_order", *order);
  if (const Json* groups = reader.any("param_groups")) used_by(deepspeed, "param_groups", *groups);
  if (const Json* visits = reader.any("visits")) {
    model.visits = read_visits(origin, reader.key("visits"), *visits, by_name);
    check_visits(origin, reader.key("visits"), model, !traits(schedule).follows_torch);
    used_by(has_hooks, "visits", *visits);
  }
}

}  // namespace shardmark
