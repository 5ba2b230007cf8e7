// SPDX-License-Identifier: Apache-2.0
// A model of family `list`: any model, described by the parameter counts of its modules and the
// order in which DeepSpeed's hooks would visit them. Only the schedule `deepspeed` uses that order
// and the parameter groups; for `paper` they are checked but not used.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t max_numel = std::int64_t{1} << 60;
constexpr std::size_t max_modules = 1'000'000;

ListModule read_module(Origin& origin, const Json& value, const std::string& key) {
  ListModule module;
  KeyReader reader(origin, value, key);
  const Json* name = reader.any("name");
  if (!name) origin.missing(reader.key("name"), "give the module's name; \"\" is the root");
  if (!name->is_string()) origin.refuse(reader.key("name"), *name, "must be a string");
  module.name = name->get<std::string>();
  const Json* numels = reader.any("numels");
  if (!numels)
    origin.missing(reader.key("numels"), "give its parameters' element counts; [] for a container");
  if (!numels->is_array())
    origin.refuse(reader.key("numels"), *numels, "must be an array of element counts");
  const IntRange range{1, max_numel};
  for (std::size_t i = 0; i < numels->size(); ++i) {
    const auto n = as_integer((*numels)[i]);
    if (!n || *n < range.min || *n > range.max)
      origin.refuse(fmt::format("{}.{}", reader.key("numels"), i), (*numels)[i],
                    "must be " + describe(range));
    module.numels.push_back(*n);
  }
  reader.finish();
  return module;
}

// The modules by name, for checks of keys that refer to them.
using ByName = std::map<std::string, std::size_t>;

ByName read_modules(KeyReader& reader, ModelSpec& model) {
  Origin& origin = reader.origin();
  const std::string key = reader.key("modules");
  const Json* modules = reader.any("modules");
  if (!modules) origin.missing(key, "give the modules in registration order");
  if (!modules->is_array() || modules->empty() || modules->size() > max_modules)
    origin.refuse(key, *modules, fmt::format("must be an array of 1 to {} modules", max_modules));
  ByName by_name;
  bool any_numels = false;
  for (std::size_t i = 0; i < modules->size(); ++i) {
    const std::string at = fmt::format("{}.{}", key, i);
    model.modules.push_back(read_module(origin, (*modules)[i], at));
    const ListModule& module = model.modules.back();
    any_numels = any_numels || !module.numels.empty();
    if (!by_name.emplace(module.name, i).second)
      origin.refuse(at + ".name", module.name,
                    fmt::format("is also the name of {}.{}: names must differ", key,
                                by_name.at(module.name)));
  }
  if (!any_numels)
    origin.refuse(key, *modules, "no module has parameters: give one of them a numels");
  return by_name;
}

void read_tied(KeyReader& reader, ModelSpec& model, const ByName& by_name) {
  Origin& origin = reader.origin();
  const Json* tied = reader.any("tied");
  if (!tied) return;
  const std::string key = reader.key("tied");
  if (!tied->is_array()) origin.refuse(key, *tied, "must be an array of [alias, owner] pairs");
  std::set<std::string> aliases;
  for (std::size_t i = 0; i < tied->size(); ++i) {
    const Json& pair = (*tied)[i];
    const std::string at = fmt::format("{}.{}", key, i);
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      origin.refuse(at, pair, "must be a pair of module names, [alias, owner]");
    for (const Json& name : pair)
      if (!by_name.contains(name.get<std::string>()))
        origin.refuse(at, pair,
                      fmt::format("no module is named {}: list it in {}", brief(name),
                                  reader.key("modules")));
    const auto alias = pair[0].get<std::string>(), owner = pair[1].get<std::string>();
    const auto a = by_name.at(alias), o = by_name.at(owner);
    if (model.modules[a].numels != model.modules[o].numels || model.modules[a].numels.empty())
      origin.refuse(at, pair, "both must have the same numels, at least one: correct them");
    if (o >= a)
      origin.refuse(at, pair, "the owner must be listed before its alias: swap the two names");
    if (!aliases.insert(alias).second)
      origin.refuse(at, pair, fmt::format("{} is tied twice: remove one pair", brief(pair[0])));
    model.tied.emplace_back(alias, owner);
  }
  for (const auto& [alias, owner] : model.tied)
    if (aliases.contains(owner))
      origin.refuse(
          key, *tied,
          fmt::format("\"{}\" is both an alias and an owner: tie \"{}\" to the owner of both",
                      owner, alias));
}

// Returns the lists of a JSON array. Each index in 0..count-1 must occur exactly once over all
// lists.
std::vector<std::vector<int>> read_cover(Origin& origin, const std::string& key,
                                         const std::vector<const Json*>& lists,
                                         std::int64_t count) {
  std::vector<bool> seen(static_cast<std::size_t>(count));
  std::int64_t found = 0;
  std::vector<std::vector<int>> result;
  for (const Json* list : lists) {
    if (!list->is_array()) origin.refuse(key, *list, "must be an array of parameter indices");
    if (list->empty()) origin.refuse(key, *list, "must not be empty: list some parameters");
    std::vector<int>& indices = result.emplace_back();
    for (const Json& entry : *list) {
      const auto index = as_integer(entry);
      if (!index || *index < 0 || *index >= count)
        origin.refuse(key, entry, fmt::format("must be a parameter index from 0 to {}", count - 1));
      if (seen[static_cast<std::size_t>(*index)])
        origin.refuse(key, entry, "this parameter is listed twice: list each once");
      seen[static_cast<std::size_t>(*index)] = true;
      indices.push_back(static_cast<int>(*index));
      ++found;
    }
  }
  if (found != count)
    throw DeckError(fmt::format("{}: {} of {} parameters are listed: list each once",
                                origin.place(key), found, count));
  return result;
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

// A module with parameters must be computed forward once before any backward, and must have
// gradients.
void check_visits(Origin& origin, const std::string& key, const ModelSpec& model) {
  std::set<int> forward, backward;
  for (const Visit& v : model.visits) {
    if (v.kind == VisitKind::pre_forward && backward.empty()) forward.insert(v.module);
    if (v.kind == VisitKind::pre_backward) backward.insert(v.module);
  }
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    const ListModule& m = model.modules[i];
    if (m.numels.empty()) continue;
    const int module = m.name.empty() ? root_module : static_cast<int>(i);
    const bool runs = forward.contains(module);
    if (runs && backward.contains(module)) continue;
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

void read_list(KeyReader& reader, ModelSpec& model, Schedule schedule) {
  Origin& origin = reader.origin();
  const ByName by_name = read_modules(reader, model);
  read_tied(reader, model, by_name);
  const std::int64_t params = count_params(model);
  const auto unused_by_paper = [&](const char* name, const Json& value) {
    if (!traits(schedule).follows_deepspeed)
      origin.note(FindingKind::no_effect, reader.key(name),
                  fmt::format("{}: affects only the schedule \"deepspeed\", not \"{}\"",
                              brief(value), to_string(schedule)));
  };
  if (const Json* visits = reader.any("visits")) {
    model.visits = read_visits(origin, reader.key("visits"), *visits, by_name);
    check_visits(origin, reader.key("visits"), model);
    unused_by_paper("visits", *visits);
  }
  if (const Json* order = reader.any("gradient_ready_order")) {
    model.gradient_ready_order =
        read_cover(origin, reader.key("gradient_ready_order"), {order}, params).front();
    unused_by_paper("gradient_ready_order", *order);
  }
  if (const Json* groups = reader.any("param_groups")) {
    const std::string key = reader.key("param_groups");
    if (!groups->is_array()) origin.refuse(key, *groups, "must be an array of arrays of indices");
    std::vector<const Json*> lists;
    for (const Json& group : *groups) lists.push_back(&group);
    model.param_groups = read_cover(origin, key, lists, params);
    unused_by_paper("param_groups", *groups);
  }
}

}  // namespace shardmark
