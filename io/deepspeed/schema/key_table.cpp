// SPDX-License-Identifier: Apache-2.0
// The top level of a DeepSpeed config. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

// DeepSpeed refuses a config that names one of these, even null, empty or disabled.
constexpr DsKey gone(std::string_view name, std::string_view remedy = {}) {
  return {name, "", any, "null", removed, all_stages, any_real, remedy};
}

constexpr DsKey top_level[] = {
    {"train_batch_size", "", any, "null", used, all_stages, any_real, ""},
    {"train_micro_batch_size_per_gpu", "", any, "null", used, all_stages, any_real, ""},
    {"gradient_accumulation_steps", "", any, "null", used, all_stages, any_real, ""},
    {"gradient_clipping", "", number, "1.0", used, all_stages, any_real, ""},
    {"optimizer", "", object, "{}", used, all_stages, any_real, ""},
    {"zero_optimization", "", any, "{}", used, all_stages, any_real, ""},
    {"fp16", "", object, "{}", used, all_stages, any_real, ""},
    {"bf16", "bfloat16", object_or_null, "{}", used, all_stages, any_real, ""},
    {"data_types", "", object, "{}", used, all_stages, any_real, ""},
    {"scheduler", "", object, "{}", used, all_stages, any_real, ""},
    {"communication_data_type", "", word_any_case, "null", used, all_stages, any_real,
     "fp32|fp16|bf16"},
    {"seq_parallel_communication_data_type", "", word_any_case, "null", inert, all_stages, any_real,
     "fp32|fp16|bf16"},
    {"prescale_gradients", "", truth, "false", values, all_stages, any_real, ""},
    {"gradient_predivide_factor", "", number, "1.0", values, all_stages, any_real, ""},
    {"gradient_allreduce_op", "", word_any_case, "\"mean\"", values, all_stages, any_real,
     "mean|sum"},
    {"managed_gradient_accumulation", "", truth, "true", tunes, all_stages, any_real, ""},
    {"disable_allgather", "", truth, "false", inert, all_stages, any_real, ""},
    {"zero_allow_untested_optimizer", "", truth, "false", used, all_stages, any_real, ""},
    {"zero_force_ds_cpu_optimizer", "", truth, "true", inert, all_stages, any_real, ""},
    {"steps_per_print", "", number, "null", used, all_stages, any_real, ""},
    {"wall_clock_breakdown", "", boolean, "false", used, all_stages, any_real, ""},
    {"memory_breakdown", "", truth, "false", inert, all_stages, any_real, ""},
    {"dump_state", "", truth, "false", inert, all_stages, any_real, ""},
    {"timers", "", object, "{}", inert, all_stages, any_real, ""},
    {"comms_logger", "", object, "{}", used, all_stages, any_real, ""},
    {"flops_profiler", "", object, "{}", inert, all_stages, any_real, ""},
    {"tensorboard", "", object, "{}", inert, all_stages, any_real, "auto"},
    {"wandb", "", object, "{}", inert, all_stages, any_real, "auto"},
    {"comet", "", object, "{}", inert, all_stages, any_real, "auto"},
    {"csv_monitor", "", object, "{}", inert, all_stages, any_real, "auto"},
    {"checkpoint", "", object, "{}", inert, all_stages, any_real, ""},
    {"aio", "", object_or_null, "{}", used, {3, 3}, any_real, ""},
    {"activation_checkpointing", "", object, "{}", inert, all_stages, any_real, ""},
    {"log_level", "", any, "null", inert, all_stages, any_real, ""},
    {"datastates_ckpt", "", any, "null", inert, all_stages, any_real, ""},
    {"vocabulary_size", "", any, "null", inert, all_stages, any_real, ""},
    {"sequence_parallel_size", "", integer, "1", not_modelled, all_stages, any_real, ""},
    {"data_parallel_size", "", integer, "null", not_modelled, all_stages, any_real, ""},
    {"use_data_before_expert_parallelism", "", truth, "false", inert, all_stages, any_real, ""},
    {"disable_python_gc", "", truth, "false", inert, all_stages, any_real, ""},
    {"expert_parallel", "", any, "{}", used, all_stages, any_real, ""},
    {"dataloader_drop_last", "", truth, "false", inert, all_stages, any_real, ""},
    {"autotuning", "", object, "{}", inert, all_stages, any_real, ""},
    {"torch_autocast", "", object, "{}", used, all_stages, any_real, ""},
    {"compile", "", object, "{}", used, all_stages, any_real, ""},
    {"data_efficiency", "", object, "{}", used, all_stages, any_real, ""},
    {"hybrid_engine", "", object, "{}", used, all_stages, any_real, ""},
    {"pipeline", "", object, "{}", inert, all_stages, any_real, ""},
    {"tensor_parallel", "", object, "{}", used, all_stages, any_real, ""},
    {"weight_quantization", "", object, "{}", used, all_stages, any_real, ""},
    gone("amp", "use fp16, bf16 or torch_autocast"),
    gone("compression_training"),
    gone("curriculum_learning",
         "DeepSpeed has it at data_efficiency.data_sampling.curriculum_learning now"),
    gone("eigenvalue"),
    gone("elasticity", "set the batch sizes directly"),
    gone("graph_harvesting"),
    gone("nebula"),
    gone("progressive_layer_drop"),
    gone("quantize_training"),
    gone("sparse_attention"),
    gone("sparse_gradients"),
};

}  // namespace

DsSection ds_top_level() {
  return {top_level, false, false};
}

}  // namespace shardmark
