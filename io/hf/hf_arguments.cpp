// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <io/hf/hf_arguments.hpp>
#include <io/hf/trainer_arguments.hpp>

namespace shardmark {
namespace {

// The names under which trainers take the length of a sequence: TRL (now and earlier), FastChat,
// LLaMA-Factory, axolotl, and the scripts of transformers.
constexpr std::array length_names{"max_length", "max_seq_length", "model_max_length",
                                  "cutoff_len", "sequence_len",   "block_size"};

void read_table(KeyReader& reader) {
  for (const HfArgument& row : hf_argument_table()) {
    const Json* value = reader.any(row.name);
    if (value == nullptr || row.effect == HfEffect::used) continue;
    const std::string key = reader.key(row.name);
    const bool asks = !value->is_null() && *value != false && *value != Json::parse(row.fallback);
    if (row.effect == HfEffect::refused && asks) reader.origin().not_modelled(key, *value, row.why);
    reader.origin().note(FindingKind::no_effect, key,
                         fmt::format("{}: does not change what is planned", brief(*value)));
  }
  for (const char* name : length_names) (void)reader.any(name);
}

// transformers 5 calls it activation_checkpointing, and takes the older name where that is absent.
const Json* either(KeyReader& reader, const std::string& suffix, std::string& name) {
  for (const char* prefix : {"activation_checkpointing", "gradient_checkpointing"}) {
    const Json* value = reader.any(prefix + suffix);
    if (value == nullptr || value->is_null()) continue;
    name = prefix + suffix;
    return value;
  }
  return nullptr;
}

// transformers itself asks for the newer kind; with keywords of one's own, torch decides, whose
// default is the re-entrant kind.
void read_checkpointing_keywords(KeyReader& reader, HfArguments& a) {
  std::string name;
  const Json* keywords = either(reader, "_kwargs", name);
  if (keywords == nullptr) return;
  if (!keywords->is_object())
    reader.origin().refuse(reader.key(name), *keywords, "must be an object");
  a.reentrant = keywords->value("use_reentrant", Json(true)) == true;
  const struct {
    const char* name;
    Json fallback;
  } own[] = {{"every_n_layers", 1}, {"offload", false}};
  for (const auto& [key, fallback] : own)
    if (const auto it = keywords->find(key); it != keywords->end() && *it != fallback)
      reader.origin().not_modelled(reader.key(name) + "." + key, *it, "remove the key");
  for (const auto& item : keywords->items())
    if (item.key() != "use_reentrant" && item.key() != own[0].name && item.key() != own[1].name)
      reader.origin().note(FindingKind::no_effect, reader.key(name) + "." + item.key(),
                           brief(item.value()) + ": does not change what is planned");
}

void read_checkpointing(KeyReader& reader, HfArguments& a) {
  read_checkpointing_keywords(reader, a);
  const Json* value = either(reader, "", a.checkpointing_name);
  if (value == nullptr) return;
  if (!value->is_boolean())
    reader.origin().refuse(reader.key(a.checkpointing_name), *value, "must be true or false");
  a.checkpointing = *value == true;
}

// Without an optimizer in the config the trainer makes the one that `optim` names.
void read_optim(KeyReader& reader, HfArguments& a) {
  const Json* value = reader.any("optim");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_string())
    reader.origin().refuse(reader.key("optim"), *value, "must be the name of an optimizer");
  a.optim = value->get<std::string>();
}

}  // namespace

std::optional<HfSequence> hf_sequence(const Origin& origin, const Json& section) {
  std::optional<HfSequence> found;
  if (!section.is_object()) return found;
  for (const char* name : length_names) {
    const auto it = section.find(name);
    if (it == section.end() || it->is_null()) continue;
    const std::string key = join_key("hf", name);
    const auto length = as_integer(*it);
    if (!length || *length < 1 || *length > 2147483647)
      origin.refuse(key, *it, "must be an integer from 1 to 2147483647");
    if (found && found->length != *length)
      origin.refuse(key, *it,
                    fmt::format("{} is {}: give one of the two", found->name, found->length));
    found = HfSequence{key, *length};
  }
  return found;
}

std::string HfArguments::source(std::string_view name) const {
  return "hf." + std::string(name) + (given.contains(name) ? "" : " (the trainer's default)");
}

HfArguments read_hf(KeyReader reader) {
  HfArguments a;
  const auto real = [&](const char* name, double& field, RealRange range) {
    if (reader.any(name)) a.given.insert(name);
    reader.real(name, field, range);
  };
  const auto integer = [&](const char* name, std::int64_t& field, IntRange range) {
    if (reader.any(name)) a.given.insert(name);
    reader.integer(name, field, range);
  };
  const auto boolean = [&](const char* name, bool& field) {
    if (reader.any(name)) a.given.insert(name);
    reader.boolean(name, field);
  };
  integer("per_device_train_batch_size", a.per_device_train_batch_size, {1});
  integer("gradient_accumulation_steps", a.gradient_accumulation_steps, {1});
  real("learning_rate", a.learning_rate, {0});
  real("weight_decay", a.weight_decay, {0});
  real("adam_beta1", a.adam_beta1, {0, 1});
  real("adam_beta2", a.adam_beta2, {0, 1});
  real("adam_epsilon", a.adam_epsilon, {0});
  real("warmup_steps", a.warmup_steps, {0});
  if (reader.any("warmup_ratio")) real("warmup_ratio", a.warmup_ratio, {0, 1});
  integer("max_steps", a.max_steps, {-1});
  real("max_grad_norm", a.max_grad_norm, {0});
  boolean("bf16", a.bf16);
  boolean("fp16", a.fp16);
  if (reader.any("bf16_full_eval")) boolean("bf16_full_eval", a.bf16_full_eval);
  if (reader.any("fp16_full_eval")) boolean("fp16_full_eval", a.fp16_full_eval);
  if (reader.any("hidden_size")) {
    a.hidden_size = 0;
    integer("hidden_size", *a.hidden_size, {1, 2147483647});
  }
  read_checkpointing(reader, a);
  read_optim(reader, a);
  read_table(reader);
  if (a.fp16 && a.bf16)
    reader.origin().refuse(reader.key("fp16"), true,
                           "the trainer takes at most one of fp16 and bf16: remove one");
  reader.finish();
  return a;
}

}  // namespace shardmark
