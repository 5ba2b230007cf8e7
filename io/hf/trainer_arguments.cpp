// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <vector>

#include <io/hf/trainer_arguments.hpp>

namespace shardmark {
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

constexpr HfArgument arguments[] = {
    {"activation_checkpointing", HfEffect::used},
    {"activation_checkpointing_kwargs", HfEffect::used},
    {"activation_offloading", HfEffect::refused, "false",
     "activations would be kept in host memory: remove the key"},
    {"adafactor", HfEffect::refused, "false", "another optimizer: remove the key"},
    {"adam_beta1", HfEffect::used},
    {"adam_beta2", HfEffect::used},
    {"adam_epsilon", HfEffect::used},
    {"auto_find_batch_size", HfEffect::refused, "false",
     "the batch size would be found by trying: give per_device_train_batch_size"},
    {"bf16", HfEffect::used},
    {"bf16_full_eval", HfEffect::used},
    {"deepspeed", HfEffect::refused, "null",
     "the config is the deck's own section: give it at the key deepspeed of the deck"},
    {"fp16", HfEffect::used},
    {"fp16_full_eval", HfEffect::used},
    {"fsdp", HfEffect::refused, "\"\"",
     "FSDP beside DeepSpeed: remove the key; the schedule \"torch\" plans FSDP"},
    {"fsdp_min_num_params", HfEffect::refused, "0", "FSDP beside DeepSpeed: remove the key"},
    {"gradient_accumulation_steps", HfEffect::used},
    {"gradient_checkpointing", HfEffect::used},
    {"gradient_checkpointing_kwargs", HfEffect::used},
    {"label_smoothing_factor", HfEffect::refused, "0.0",
     "the smoothed loss keeps more of the logits: remove the key"},
    {"learning_rate", HfEffect::used},
    {"loss_type", HfEffect::refused, "\"nll\"",
     "another loss keeps other parts of the logits: remove the key"},
    {"max_grad_norm", HfEffect::used},
    {"max_steps", HfEffect::used},
    {"model_init_kwargs", HfEffect::refused, "null",
     "it changes the model: give what it says in the model's config"},
    {"optim", HfEffect::used},
    {"optim_target_modules", HfEffect::refused, "null",
     "it is for optimizers that are not modelled: remove the key"},
    {"parallelism_config", HfEffect::refused, "null", "other kinds of parallelism: remove the key"},
    {"per_device_train_batch_size", HfEffect::used},
    {"per_gpu_train_batch_size", HfEffect::refused, "null",
     "the trainer itself has replaced it: give per_device_train_batch_size"},
    {"torchdynamo", HfEffect::refused, "null",
     "compiled code saves other activations: remove the key"},
    {"use_liger_kernel", HfEffect::refused, "false",
     "its kernels save other activations: remove the key"},
    {"warmup_ratio", HfEffect::used},
    {"warmup_steps", HfEffect::used},
    {"weight_decay", HfEffect::used},
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
