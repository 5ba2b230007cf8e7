// SPDX-License-Identifier: Apache-2.0
// Sections of which ShardMark models nothing: what DeepSpeed refuses in them is refused, what acts
// is refused by name, and everything else becomes a finding.
#include <algorithm>

#include <fmt/core.h>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

// Whether the key that switches a section on has a value that does so.
bool is_on(const Section& part, const DsValues& values) {
  const Json gate = values.at(part.gate);
  if (gate.is_number()) return gate > 1;  // ranks that share something
  return gate.is_boolean() ? gate.get<bool>() : !gate.empty();
}

// Python takes null, zero, false and empty values as no section at all here.
bool counts_as_absent(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

// A number, which DeepSpeed also takes from a string.
std::int64_t number_of(const Json& value) {
  if (value.is_string()) return std::atoll(value.get<std::string>().c_str());
  return as_integer(value).value_or(1);
}

constexpr std::string_view tensor_ranks_key = "autotp_size";

// The ranks that the section `tensor_parallel` divides layers over.
std::int64_t tensor_ranks(const DsValues& c) {
  return std::max<std::int64_t>(number_of(c.at(tensor_ranks_key)), 1);
}

constexpr std::string_view expert_ranks_key = "autoep_size";

bool divides_experts(const DsValues& c) {
  return c.flag("enabled");
}

// AutoTP's preset for mixtures, which divides attention alone.
constexpr std::string_view mixture_preset = "mixtral";

// Beside AutoEP, AutoTP needs a preset that says what it divides. It refuses the plan that
// transformers has for mixtures.
void check_folding(const DsValues& tensors, const DsValues& experts, const Origin& origin) {
  const Json preset = tensors.at("preset_model"), other = experts.at("preset_model");
  if (preset != mixture_preset)
    origin.refuse(tensors.key("preset_model"), preset,
                  "beside expert_parallel AutoTP takes a mixture by a preset alone (DeepSpeed: "
                  "\"HuggingFace tp_plan contains unsupported partition style(s)\"): set it to "
                  "\"mixtral\"");
  if (!other.is_null() && other != mixture_preset)
    origin.refuse(experts.key("preset_model"), other,
                  "DeepSpeed needs the one of tensor_parallel.preset_model: set it to \"mixtral\", "
                  "or remove the key");
}

// What AutoTP divides is modelled as it does by itself, or by its preset beside AutoEP. These keys
// would make it divide, or send, something else.
void check_tensor_parallel(const DsValues& c, bool folds, const Origin& origin) {
  if (tensor_ranks(c) == 1) return;
  if (const Json preset = c.at("preset_model"); !folds && !counts_as_absent(preset))
    origin.not_modelled(c.key("preset_model"), preset, "remove the key");
  for (const char* name : {"tp_overlap_comm", "vocab_parallel_lm_head", "vocab_parallel_ce_backend",
                           "partition_config", "injection_policy_tuple"})
    if (const Json value = c.at(name); !counts_as_absent(value) && value != "torch")
      origin.not_modelled(c.key(name), value, "remove the key");
}

// The group of a section `tp`, if the config has one.
void check_tensor_group(const DsValues& c, const DsValues& group, const Origin& origin) {
  const std::int64_t size = tensor_ranks(c), own = number_of(group.at("tp_size"));
  if (size == 1) return;
  if (own != 1 && own != size)
    origin.refuse(group.key("tp_size"), group.at("tp_size"),
                  fmt::format("does not match tensor_parallel.{} ({}): remove the key",
                              tensor_ranks_key, size));
  if (const Json grain = group.at("tp_grain_size"); number_of(grain) != 1)
    origin.not_modelled(group.key("tp_grain_size"), grain, "remove the key");
}

// What AutoEP does by itself is modelled, for two families.
void check_experts(const DsValues& c, const Origin& origin) {
  const std::int64_t ranks = number_of(c.at(expert_ranks_key));
  if (ranks < 2)
    origin.not_modelled(c.key(expert_ranks_key), ranks,
                        "AutoEP changes the tensors of experts even if no rank has a part of them: "
                        "set enabled to false, or autoep_size to 2 or more");
  if (number_of(c.at("expert_tensor_parallel_size")) != 1)
    origin.not_modelled(c.key("expert_tensor_parallel_size"), c.at("expert_tensor_parallel_size"),
                        "remove the key");
  const Json preset = c.at("preset_model");
  if (!preset.is_null() && preset != "qwen3_moe" && preset != mixture_preset)
    origin.not_modelled(c.key("preset_model"), preset, "give \"qwen3_moe\" or \"mixtral\"");
}

// AutoEP refuses the key for every value, whether it is enabled or not.
void check_expert_parallel(const DsValues& c, const Origin& origin) {
  if (const Json value = c.at("load_balance_coeff"); !value.is_null())
    origin.refuse(c.key("load_balance_coeff"), value,
                  "DeepSpeed refuses every value but null: remove the key");
  if (divides_experts(c)) check_experts(c, origin);
}

}  // namespace

std::map<std::string_view, DsValues> read_parts(Origin& origin, const DsValues& top,
                                                const DsValues& zero) {
  std::map<std::string_view, DsValues> parts;
  for (const Section& part : ds_sections()) {
    if (part.judging == Judging::by_reader) continue;
    const auto [parent, name] = split_key(part.path);
    const auto found = parts.find(parent);
    const DsValues* from = parent.empty()           ? &top
                           : parent == zero_section ? &zero
                           : found == parts.end()   ? nullptr
                                                    : &found->second;
    if (from == nullptr || !from->given(name) || counts_as_absent(from->at(name))) continue;
    parts.emplace(part.path, DsValues(origin, from->key(name), from->at(name), part));
  }
  const auto experts = parts.find("expert_parallel");
  const bool folds = experts != parts.end() && divides_experts(experts->second);
  if (const auto it = parts.find("tensor_parallel"); it != parts.end()) {
    check_tensor_parallel(it->second, folds, origin);
    if (folds && tensor_ranks(it->second) > 1) check_folding(it->second, experts->second, origin);
    if (const auto group = parts.find("tensor_parallel.tensor_parallel"); group != parts.end())
      check_tensor_group(it->second, group->second, origin);
  }
  if (experts != parts.end()) check_expert_parallel(experts->second, origin);
  return parts;
}

ParallelSpec parallel_spec(const DsConfig& c) {
  ParallelSpec spec;
  spec.sequence = as_integer(c.top.at("sequence_parallel_size")).value_or(1);
  if (const auto it = c.parts.find("tensor_parallel"); it != c.parts.end())
    spec.tensor = tensor_ranks(it->second);
  if (const auto it = c.parts.find("expert_parallel");
      it != c.parts.end() && divides_experts(it->second)) {
    spec.expert = number_of(it->second.at(expert_ranks_key));
    spec.same_experts_near = c.top.flag("use_data_before_expert_parallelism");
  }
  return spec;
}

void mute_parts(DsConfig& c) {
  if (const auto it = c.parts.find("expert_parallel");
      it == c.parts.end() || !divides_experts(it->second))
    c.top.mute("use_data_before_expert_parallelism",
               "has an effect only with expert_parallel.enabled");
  for (const Section& part : ds_sections()) {
    const auto it = c.parts.find(part.path);
    if (it == c.parts.end() || part.gate.empty() || is_on(part, it->second)) continue;
    for (const Key& key : part.keys)
      if (key.name != part.gate && !c.parts.contains(fmt::format("{}.{}", part.path, key.name)))
        it->second.mute(key.name, std::string(part.gate_is_off));
  }
  if (const auto it = c.parts.find("tensor_parallel.tensor_parallel"); it != c.parts.end())
    for (const Key& key : it->second.section().keys)
      it->second.mute(key.name, fmt::format("only {} divides the model", tensor_ranks_key));
}

void judge_parts(const DsConfig& c, Origin& origin, Schedule schedule) {
  for (const Section& part : ds_sections())
    if (const auto it = c.parts.find(part.path);
        part.judging == Judging::by_key && it != c.parts.end())
      it->second.judge(origin, c.stage, schedule);
}

}  // namespace shardmark
