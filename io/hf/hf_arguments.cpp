// SPDX-License-Identifier: Apache-2.0
#include <io/hf/hf_arguments.hpp>

namespace shardmark {

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
  if (a.fp16 && a.bf16)
    reader.origin().refuse(reader.key("fp16"), true,
                           "the trainer takes at most one of fp16 and bf16: remove one");
  reader.finish();
  return a;
}

}  // namespace shardmark
