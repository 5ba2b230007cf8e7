// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <io/deepspeed/schema/key_table.hpp>
#include <io/deepspeed/schema/values.hpp>
#include <io/keys/nearest.hpp>

namespace shardmark {
namespace {

// Returns whether the value of a key that is not modelled asks for nothing beyond what ShardMark
// does.
bool harmless(const Key& key, const Json& value) {
  if (value == key.default_value()) return true;
  if (key.type == KeyType::any) return false;  // what Python then makes of it is unknown
  if (value.is_null()) return true;
  if (key.type == KeyType::boolean_or_null) return value == false;
  if (key.type == KeyType::object_or_null)
    return false;  // the presence of the object switches the feature on
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    return text == "fp32" || text == "float32" || text == "float" || text == "torch.float32";
  }
  return false;
}

std::string stages_text(Stages s) {
  if (s.first == s.last) return fmt::format("only at stage {}", s.first);
  return fmt::format("only at stages {} to {}", s.first, s.last);
}

}  // namespace

void refuse_removed(const Origin& origin, std::string_view key, const Json& value,
                    std::string_view remedy) {
  origin.refuse(key, value,
                fmt::format("DeepSpeed 0.19.8 has removed this key: remove it{}{}",
                            remedy.empty() ? "" : "; ", remedy));
}

DsValues::DsValues(Origin& origin, std::string key, const Json& object, const Section& section)
    : key_(std::move(key)), section_(section) {
  if (!object.is_object())
    origin.refuse(key_, object, "must be an object: enclose its keys in braces");
  const bool coerces = section_.reading == Reading::model;
  const bool forbids_extras = section_.reading != Reading::dictionary;
  for (const auto& item : object.items()) {
    const std::string at = join_key(key_, item.key());
    const Key* row = find_key(section_.keys, item.key());
    const bool dropped = coerces && item.value() == "auto";
    if (!row && forbids_extras && !dropped)
      refuse_unknown(origin, key_, item.key(), item.value(), spellings(section_.keys));
    if (!row) {
      std::string meant = did_you_mean(item.key(), spellings(section_.keys), "\"");
      if (meant.empty())
        meant = did_you_mean(item.key(), paths_named(item.key(), ds_sections(), ""), "\"");
      origin.note(FindingKind::ignored, at,
                  "unknown to DeepSpeed, which ignores it" + (meant.empty() ? "" : ": " + meant));
      continue;
    }
    if (row->effect == KeyEffect::removed) refuse_removed(origin, at, item.value(), row->sentence);
    if (dropped) {
      origin.note(FindingKind::filled, at,
                  fmt::format("{}: DeepSpeed drops \"auto\" here and takes its default{}",
                              row->default_value().dump(),
                              hf_key_of(at).empty() ? "" : ": " + auto_remedy(at)));
      continue;
    }
    const auto value = coerce(*row, item.value(), coerces);
    if (!value)
      origin.refuse(at, item.value(),
                    describe(*row) + (item.value() == "auto" ? ": " + auto_remedy(at) : ""));
    if (const auto twin = values_.find(row->name); twin != values_.end()) {
      if (forbids_extras)
        origin.refuse(at, item.value(),
                      fmt::format("is the same key as \"{}\", which is given too: "
                                  "remove one",
                                  twin->second.spelling));
      origin.note(FindingKind::ignored, at,
                  fmt::format("\"{}\" is given too and takes precedence", twin->second.spelling));
      continue;
    }
    if (row->type == KeyType::truth && item.value().is_string())
      origin.note(
          FindingKind::warning, at,
          fmt::format("{}: text, which DeepSpeed takes as {}", brief(item.value()), brief(*value)));
    values_.emplace(row->name, Value{item.key(), *value});
  }
}

const Key& DsValues::row(const KeyRef& ref) const {
  for (const Key& key : section_.keys)
    if (ref.is(key)) return key;
  throw std::logic_error(fmt::format("a key that the table of {} does not have is read", key_));
}

Json DsValues::at(const KeyRef& key) const {
  const Key& found = row(key);
  const auto it = values_.find(found.name);
  return it == values_.end() ? found.default_value() : it->second.value;
}

Json DsValues::effective(const KeyRef& key) const {
  const Key& found = row(key);
  return muted_.contains(found.name) ? found.default_value() : at(key);
}

bool DsValues::flag(const KeyRef& key) const {
  return at(key) == true;
}

void DsValues::fill(Deck& deck) const {
  for (const Key& key : section_.keys)
    if (key.member.set != nullptr) key.member.set(deck, effective(key.name));
}

double DsValues::number(const KeyRef& key) const {
  return at(key).get<double>();
}

std::string DsValues::key(const KeyRef& key) const {
  const Key& found = row(key);
  const auto it = values_.find(found.name);
  return join_key(key_, it == values_.end() ? std::string(found.name) : it->second.spelling);
}

void DsValues::mute_behind_gate() {
  if (flag(section_.gate)) return;
  for (const Key& key : section_.keys)
    if (key.name != section_.gate && key.effect != KeyEffect::values &&
        key.effect != KeyEffect::not_modelled)
      mute(key.name, std::string(section_.gate_is_off));
}

std::string DsValues::without_effect(const Key& row, int stage, Schedule schedule) const {
  if (row.effect == KeyEffect::dead) return "DeepSpeed never uses it";
  if (stage < row.stages.first || stage > row.stages.last)
    return fmt::format("has an effect {}, and this is stage {}", stages_text(row.stages), stage);
  if (const auto it = muted_.find(row.name); it != muted_.end()) return it->second;
  if (row.effect == KeyEffect::tunes && !traits(schedule).follows_deepspeed)
    return fmt::format("affects only the schedule \"deepspeed\", not \"{}\"", to_string(schedule));
  if (row.effect == KeyEffect::inert) return "does not change anything that ShardMark does";
  return "";
}

void DsValues::judge(Origin& origin, int stage, Schedule schedule) const {
  for (const Key& row : section_.keys) {
    const std::string why_not = without_effect(row, stage, schedule);
    const auto it = values_.find(row.name);
    if (it == values_.end()) {
      const bool listed = row.effect == KeyEffect::used || row.effect == KeyEffect::tunes;
      const Json value = row.default_value();
      if (listed && !value.empty() && why_not.empty())
        origin.note(FindingKind::defaulted, join_key(key_, row.name), value.dump());
      continue;
    }
    const std::string at = join_key(key_, it->second.spelling);
    const Json& value = it->second.value;
    if (!why_not.empty())
      origin.note(FindingKind::no_effect, at, fmt::format("{}: {}", brief(value), why_not));
    else if (row.effect == KeyEffect::not_modelled && !harmless(row, value))
      origin.not_modelled(at, value, "remove the key");
    else if (row.effect == KeyEffect::values && !traits(schedule).follows_deepspeed &&
             !harmless(row, value))
      origin.not_modelled(at, value, "remove the key, or set run.schedule to \"deepspeed\"");
  }
}

}  // namespace shardmark
