// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iterator>
#include <vector>

#include <fmt/core.h>

#include <io/hf/hf_arguments.hpp>

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
  if (!keywords->is_object()) reader.refuse(name, *keywords, "must be an object");
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
  if (!value->is_boolean()) reader.refuse(a.checkpointing_name, *value, "must be true or false");
  a.checkpointing = *value == true;
}

// Without an optimizer in the config the trainer makes the one that `optim` names.
void read_optim(KeyReader& reader, HfArguments& a) {
  const Json* value = reader.any("optim");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_string()) reader.refuse("optim", *value, "must be the name of an optimizer");
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
  for (const auto& item : reader.object().items()) a.given.insert(item.key());
  reader.integer("per_device_train_batch_size", a.per_device_train_batch_size, {1});
  reader.integer("gradient_accumulation_steps", a.gradient_accumulation_steps, {1});
  reader.real("learning_rate", a.learning_rate, {0});
  reader.real("weight_decay", a.weight_decay, {0});
  reader.real("adam_beta1", a.adam_beta1, {0, 1});
  reader.real("adam_beta2", a.adam_beta2, {0, 1});
  reader.real("adam_epsilon", a.adam_epsilon, {0});
  reader.real("warmup_steps", a.warmup_steps, {0});
  if (reader.any("warmup_ratio")) reader.real("warmup_ratio", a.warmup_ratio, {0, 1});
  reader.integer("max_steps", a.max_steps, {-1});
  reader.real("max_grad_norm", a.max_grad_norm, {0});
  reader.boolean("bf16", a.bf16);
  reader.boolean("fp16", a.fp16);
  if (reader.any("bf16_full_eval")) reader.boolean("bf16_full_eval", a.bf16_full_eval);
  if (reader.any("fp16_full_eval")) reader.boolean("fp16_full_eval", a.fp16_full_eval);
  if (reader.any("hidden_size")) {
    a.hidden_size = 0;
    reader.integer("hidden_size", *a.hidden_size, {1, 2147483647});
  }
  read_checkpointing(reader, a);
  read_optim(reader, a);
  read_table(reader);
  if (a.fp16 && a.bf16)
    reader.refuse("fp16", true, "the trainer takes at most one of fp16 and bf16: remove one");
  reader.finish();
  return a;
}

namespace {

// Arguments of transformers' trainer, and of TRL's for supervised fine-tuning, about data,
// evaluation, logging, saving or values alone.
// clang-format off
constexpr std::string_view inert_arguments[] = {
    "accelerator_config", "assistant_only_loss", "average_tokens_across_devices",
    "batch_eval_metrics", "chat_template_path", "completion_only_loss", "data_seed",
    "dataloader_drop_last", "dataloader_in_order", "dataloader_multiprocessing_context",
    "dataloader_num_workers", "dataloader_persistent_workers", "dataloader_pin_memory",
    "dataloader_prefetch_factor", "dataset_kwargs", "dataset_num_proc", "dataset_text_field",
    "ddp_backend", "ddp_broadcast_buffers", "ddp_bucket_cap_mb", "ddp_find_unused_parameters",
    "ddp_static_graph", "ddp_timeout", "debug", "disable_tqdm", "do_eval", "do_predict", "do_train",
    "enable_jit_checkpoint", "eos_token", "eval_accumulation_steps", "eval_delay",
    "eval_do_concat_batches", "eval_on_start", "eval_packing", "eval_steps", "eval_strategy",
    "eval_use_gather_object", "fp16_backend", "fp16_opt_level", "fsdp_config",
    "fsdp_transformer_layer_cls_to_wrap", "full_determinism", "greater_is_better",
    "group_by_length", "half_precision_backend", "hub_always_push", "hub_model_id",
    "hub_private_repo", "hub_revision", "hub_strategy", "hub_token", "ignore_data_skip",
    "include_for_metrics", "include_inputs_for_metrics", "include_num_input_tokens_seen",
    "include_tokens_per_second", "jit_mode_eval", "label_names", "length_column_name",
    "liger_kernel_config", "load_best_model_at_end", "local_rank", "log_level", "log_level_replica",
    "log_on_each_node", "logging_dir", "logging_first_step", "logging_nan_inf_filter",
    "logging_steps", "logging_strategy", "lr_scheduler_kwargs", "lr_scheduler_type",
    "metric_for_best_model", "mp_parameters", "neftune_noise_alpha", "no_cuda", "num_train_epochs",
    "optim_args", "output_dir", "overwrite_output_dir", "packing", "packing_strategy",
    "pad_to_multiple_of", "pad_token", "padding_free", "past_index", "per_device_eval_batch_size",
    "per_gpu_eval_batch_size", "prediction_loss_only", "project", "push_to_hub",
    "push_to_hub_model_id", "push_to_hub_organization", "push_to_hub_token", "ray_scope",
    "remove_unused_columns", "report_to", "restore_callback_states_from_checkpoint",
    "resume_from_checkpoint", "run_name", "save_on_each_node", "save_only_model",
    "save_safetensors", "save_steps", "save_strategy", "save_total_limit", "seed",
    "shuffle_dataset", "skip_memory_metrics", "tf32", "torch_compile", "torch_compile_backend",
    "torch_compile_mode", "torch_empty_cache_steps", "tpu_metrics_debug", "tpu_num_cores",
    "trackio_bucket_id", "trackio_space_id", "trackio_static_space_id", "train_sampling_strategy",
    "use_cache", "use_cpu", "use_legacy_prediction_loop", "use_mps_device"};
// clang-format on

// The arguments that are refused, and those that the functions above may not have looked for.
constexpr HfArgument arguments[] = {
    {"activation_offloading", HfEffect::refused, "false",
     "activations would be kept in host memory: remove the key"},
    {"adafactor", HfEffect::refused, "false", "another optimizer: remove the key"},
    {"auto_find_batch_size", HfEffect::refused, "false",
     "the batch size would be found by trying: give per_device_train_batch_size"},
    {"deepspeed", HfEffect::refused, "null",
     "the config is the deck's own section: give it at the key deepspeed of the deck"},
    {"fsdp", HfEffect::refused, "\"\"",
     "FSDP beside DeepSpeed: remove the key; the schedule \"torch\" plans FSDP"},
    {"fsdp_min_num_params", HfEffect::refused, "0", "FSDP beside DeepSpeed: remove the key"},
    // Read only where the newer names are absent.
    {"gradient_checkpointing", HfEffect::used},
    {"gradient_checkpointing_kwargs", HfEffect::used},
    {"label_smoothing_factor", HfEffect::refused, "0.0",
     "the smoothed loss keeps more of the logits: remove the key"},
    {"loss_type", HfEffect::refused, "\"nll\"",
     "another loss keeps other parts of the logits: remove the key"},
    {"model_init_kwargs", HfEffect::refused, "null",
     "it changes the model: give what it says in the model's config"},
    {"optim_target_modules", HfEffect::refused, "null",
     "it is for optimizers that are not modelled: remove the key"},
    {"parallelism_config", HfEffect::refused, "null", "other kinds of parallelism: remove the key"},
    {"per_gpu_train_batch_size", HfEffect::refused, "null",
     "the trainer itself has replaced it: give per_device_train_batch_size"},
    {"torchdynamo", HfEffect::refused, "null",
     "compiled code saves other activations: remove the key"},
    {"use_liger_kernel", HfEffect::refused, "false",
     "its kernels save other activations: remove the key"},
};

}  // namespace

std::span<const HfArgument> hf_argument_table() {
  static const std::vector<HfArgument> all = [] {
    std::vector<HfArgument> table(std::begin(arguments), std::end(arguments));
    for (const std::string_view name : inert_arguments) table.push_back({name});
    return table;
  }();
  return all;
}

}  // namespace shardmark
