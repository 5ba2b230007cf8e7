// SPDX-License-Identifier: Apache-2.0
// The top level of a DeepSpeed config. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

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
    {"sparse_gradients", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"disable_allgather", "", truth, "false", inert, all_stages, any_real, ""},
    {"amp", "", any, "null", removed, all_stages, any_real, ""},
    {"zero_allow_untested_optimizer", "", truth, "false", used, all_stages, any_real, ""},
    {"zero_force_ds_cpu_optimizer", "", truth, "true", inert, all_stages, any_real, ""},
    {"steps_per_print", "", number, "null", used, all_stages, any_real, ""},
    {"wall_clock_breakdown", "", boolean, "false", used, all_stages, any_real, ""},
    {"memory_breakdown", "", truth, "false", inert, all_stages, any_real, ""},
    {"dump_state", "", truth, "false", inert, all_stages, any_real, ""},
    {"timers", "", object, "{}", inert, all_stages, any_real, ""},
    {"comms_logger", "", object, "{}", used, all_stages, any_real, ""},
    {"flops_profiler", "", object, "{}", inert, all_stages, any_real, ""},
    {"tensorboard", "", object, "{}", inert, all_stages, any_real, ""},
    {"wandb", "", object, "{}", inert, all_stages, any_real, ""},
    {"comet", "", object, "{}", inert, all_stages, any_real, ""},
    {"csv_monitor", "", object, "{}", inert, all_stages, any_real, ""},
    {"checkpoint", "", object, "{}", inert, all_stages, any_real, ""},
    {"load_universal_checkpoint", "", truth, "false", inert, all_stages, any_real, ""},
    {"aio", "", object, "{}", used, {3, 3}, any_real, ""},
    {"activation_checkpointing", "", object, "{}", inert, all_stages, any_real, ""},
    {"log_level", "", any, "null", inert, all_stages, any_real, ""},
    {"nebula", "", object, "{}", inert, all_stages, any_real, ""},
    {"datastates_ckpt", "", object, "{}", inert, all_stages, any_real, ""},
    {"vocabulary_size", "", any, "null", inert, all_stages, any_real, ""},
    {"graph_harvesting", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"sequence_parallel_size", "", integer, "1", not_modelled, all_stages, any_real, ""},
    {"expert_parallel", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"dataloader_drop_last", "", truth, "false", inert, all_stages, any_real, ""},
    {"autotuning", "", object, "{}", inert, all_stages, any_real, ""},
    {"elasticity", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"torch_autocast", "", object, "{}", used, all_stages, any_real, ""},
    {"compile", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"compression_training", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"curriculum_learning", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"data_efficiency", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"eigenvalue", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"hybrid_engine", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"pipeline", "", object, "{}", inert, all_stages, any_real, ""},
    {"progressive_layer_drop", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"quantize_training", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"sparse_attention", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"tensor_parallel", "", object, "{}", not_modelled, all_stages, any_real, ""},
    {"weight_quantization", "", object, "{}", not_modelled, all_stages, any_real, ""},
};

}  // namespace

DsSection ds_top_level() {
  return {top_level, false, false};
}

}  // namespace shardmark
