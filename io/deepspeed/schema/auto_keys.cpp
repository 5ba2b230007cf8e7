// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/core.h>

#include <io/deepspeed/schema/auto_keys.hpp>

namespace shardmark {
namespace {

struct AutoKey {
  std::string_view key, hf_key;
};
constexpr std::array auto_keys{
    AutoKey{"train_batch_size", "hf.per_device_train_batch_size"},
    AutoKey{"train_micro_batch_size_per_gpu", "hf.per_device_train_batch_size"},
    AutoKey{"gradient_accumulation_steps", "hf.gradient_accumulation_steps"},
    AutoKey{"gradient_clipping", "hf.max_grad_norm"},
    AutoKey{"optimizer.params.lr", "hf.learning_rate"},
    AutoKey{"optimizer.params.betas", "hf.adam_beta1 and hf.adam_beta2"},
    AutoKey{"optimizer.params.eps", "hf.adam_epsilon"},
    AutoKey{"optimizer.params.weight_decay", "hf.weight_decay"},
    AutoKey{"scheduler.params.warmup_min_lr", "hf"},
    AutoKey{"scheduler.params.warmup_max_lr", "hf.learning_rate"},
    AutoKey{"scheduler.params.warmup_num_steps", "hf.warmup_steps"},
    AutoKey{"scheduler.params.total_num_steps", "hf.max_steps"},
    AutoKey{"fp16.enabled", "hf.fp16"},
    AutoKey{"bf16.enabled", "hf.bf16"},
    AutoKey{"zero_optimization.stage", "hf"},
    AutoKey{"zero_optimization.reduce_bucket_size", "hf"},
    AutoKey{"zero_optimization.stage3_prefetch_bucket_size", "hf"},
    AutoKey{"zero_optimization.stage3_param_persistence_threshold", "hf"},
};

}  // namespace

std::string_view hf_key_of(std::string_view key) {
  constexpr std::string_view root = "deepspeed.";
  if (key.starts_with(root)) key.remove_prefix(root.size());
  for (const AutoKey& row : auto_keys)
    if (row.key == key) return row.hf_key;
  return {};
}

std::string auto_remedy(std::string_view key) {
  const std::string_view hf_key = hf_key_of(key);
  if (hf_key.empty())
    return "\"auto\" is for Hugging Face's trainer, which does not fill this key: give a value";
  if (hf_key == "hf")
    return "\"auto\" is for Hugging Face's trainer to fill in: add the section \"hf\": {} to the "
           "deck, or give a value";
  return fmt::format(
      "\"auto\" is for Hugging Face's trainer to fill in: add the section \"hf\" to the deck and "
      "give {} there (without it the trainer's default is taken), or give a value",
      hf_key);
}

}  // namespace shardmark
