// SPDX-License-Identifier: Apache-2.0
// All but `zero_optimization`, which has a file of its own. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

constexpr Stages all{0, 3};
constexpr RealRange any_real{};
constexpr RealRange not_negative{0};
constexpr RealRange share{0, 1};

constexpr DsKey top_level[] = {
    {"train_batch_size", "", any, "null", used, all, any_real, ""},
    {"train_micro_batch_size_per_gpu", "", any, "null", used, all, any_real, ""},
    {"gradient_accumulation_steps", "", any, "null", used, all, any_real, ""},
    {"gradient_clipping", "", number, "1.0", used, all, any_real, ""},
    {"optimizer", "", object, "{}", used, all, any_real, ""},
    {"zero_optimization", "", any, "{}", used, all, any_real, ""},
    {"fp16", "", object, "{}", used, all, any_real, ""},
    {"bf16", "bfloat16", object, "{}", used, all, any_real, ""},
    {"data_types", "", object, "{}", used, all, any_real, ""},
    {"scheduler", "", object, "{}", used, all, any_real, ""},
    {"communication_data_type", "", word, "null", not_modelled, all, any_real, "|fp32|fp16|bf16"},
    {"seq_parallel_communication_data_type", "", any, "null", inert, all, any_real, ""},
    {"prescale_gradients", "", boolean, "false", not_modelled, all, any_real, ""},
    {"gradient_predivide_factor", "", number, "1.0", not_modelled, all, any_real, ""},
    {"gradient_allreduce_op", "", word, "\"mean\"", not_modelled, all, any_real, "mean|sum"},
    {"managed_gradient_accumulation", "", boolean, "true", not_modelled, all, any_real, ""},
    {"sparse_gradients", "", boolean, "false", not_modelled, all, any_real, ""},
    {"disable_allgather", "", boolean, "false", inert, all, any_real, ""},
    {"amp", "", any, "null", removed, all, any_real, ""},
    {"zero_allow_untested_optimizer", "", boolean, "false", inert, all, any_real, ""},
    {"zero_force_ds_cpu_optimizer", "", boolean, "true", inert, all, any_real, ""},
    {"steps_per_print", "", integer, "null", inert, all, any_real, ""},
    {"wall_clock_breakdown", "", boolean, "false", inert, all, any_real, ""},
    {"memory_breakdown", "", boolean, "false", inert, all, any_real, ""},
    {"dump_state", "", boolean, "false", inert, all, any_real, ""},
    {"timers", "", object, "{}", inert, all, any_real, ""},
    {"comms_logger", "", object, "{}", inert, all, any_real, ""},
    {"flops_profiler", "", object, "{}", inert, all, any_real, ""},
    {"tensorboard", "", object, "{}", inert, all, any_real, ""},
    {"wandb", "", object, "{}", inert, all, any_real, ""},
    {"comet", "", object, "{}", inert, all, any_real, ""},
    {"csv_monitor", "", object, "{}", inert, all, any_real, ""},
    {"checkpoint", "", object, "{}", inert, all, any_real, ""},
    {"load_universal_checkpoint", "", boolean, "false", inert, all, any_real, ""},
    {"aio", "", object, "{}", inert, all, any_real, ""},
    {"activation_checkpointing", "", object, "{}", inert, all, any_real, ""},
    {"dataloader_drop_last", "", boolean, "false", inert, all, any_real, ""},
    {"autotuning", "", object, "{}", inert, all, any_real, ""},
    {"elasticity", "", object, "{}", not_modelled, all, any_real, ""},
    {"torch_autocast", "", object, "{}", not_modelled, all, any_real, ""},
    {"compile", "", object, "{}", not_modelled, all, any_real, ""},
    {"compression_training", "", object, "{}", not_modelled, all, any_real, ""},
    {"curriculum_learning", "", object, "{}", not_modelled, all, any_real, ""},
    {"data_efficiency", "", object, "{}", not_modelled, all, any_real, ""},
    {"eigenvalue", "", object, "{}", not_modelled, all, any_real, ""},
    {"hybrid_engine", "", object, "{}", not_modelled, all, any_real, ""},
    {"pipeline", "", object, "{}", inert, all, any_real, ""},
    {"progressive_layer_drop", "", object, "{}", not_modelled, all, any_real, ""},
    {"quantize_training", "", object, "{}", not_modelled, all, any_real, ""},
    {"sparse_attention", "", object, "{}", not_modelled, all, any_real, ""},
    {"tensor_parallel", "", object, "{}", not_modelled, all, any_real, ""},
    {"weight_quantization", "", object, "{}", not_modelled, all, any_real, ""},
};

constexpr DsKey offload_param[] = {
    {"device", "", word, "\"none\"", not_modelled, {3, 3}, any_real, "none|cpu|nvme"},
    {"nvme_path", "", any, "null", inert, {3, 3}, any_real, ""},
    {"buffer_count", "", integer, "5", inert, {3, 3}, not_negative, ""},
    {"buffer_size", "", integer, "100000000", inert, {3, 3}, not_negative, ""},
    {"max_in_cpu", "", integer, "1000000000", inert, {3, 3}, not_negative, ""},
    {"pin_memory", "", boolean, "true", inert, {3, 3}, any_real, ""},
};

constexpr DsKey offload_optimizer[] = {
    {"device", "", word, "\"none\"", not_modelled, {1, 3}, any_real, "none|cpu|nvme"},
    {"nvme_path", "", any, "null", inert, {3, 3}, any_real, ""},
    {"buffer_count", "", integer, "4", inert, {3, 3}, not_negative, ""},
    {"pin_memory", "", boolean, "true", inert, {1, 3}, any_real, ""},
    {"pipeline_read", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"pipeline_write", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"fast_init", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"ratio", "", number, "1.0", inert, {3, 3}, share, ""},
    {"super_offload", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"cpuadam_cores_perc", "", number, "0.8", inert, {3, 3}, share, ""},
};

constexpr DsKey fp16[] = {
    {"enabled", "", boolean, "false", not_modelled, all, any_real, ""},
    {"auto_cast", "", boolean, "false", inert, all, any_real, ""},
    {"loss_scale", "", number, "0", inert, all, not_negative, ""},
    {"initial_scale_power", "", integer, "16", inert, all, any_real, ""},
    {"loss_scale_window", "", integer, "1000", inert, all, any_real, ""},
    {"hysteresis", "", integer, "2", inert, all, any_real, ""},
    {"consecutive_hysteresis", "", boolean, "false", inert, all, any_real, ""},
    {"min_loss_scale", "", integer, "1", inert, all, any_real, ""},
    {"fp16_master_weights_and_grads", "", boolean, "false", inert, all, any_real, ""},
};

constexpr DsKey bf16[] = {
    {"enabled", "", boolean, "false", not_modelled, all, any_real, ""},
    {"immediate_grad_update", "", boolean, "false", inert, all, any_real, ""},
    {"check_grad_overflow", "", boolean, "true", inert, all, any_real, ""},
    {"bf16_master_weights_and_grads", "", boolean, "false", inert, all, any_real, ""},
    {"bf16_optimizer_states", "", boolean, "false", inert, all, any_real, ""},
};

constexpr DsKey optimizer[] = {
    {"type", "", text, "null", used, all, any_real, ""},
    {"params", "", object, "{}", used, all, any_real, ""},
    {"legacy_fusion", "", boolean, "false", inert, all, any_real, ""},
};

constexpr DsKey adam[] = {
    {"lr", "", number, "0.001", used, all, not_negative, ""},
    {"betas", "", array, "[0.9,0.999]", used, all, any_real, ""},
    {"eps", "", number, "1e-08", used, all, not_negative, ""},
    {"weight_decay", "", number, "0.01", used, all, not_negative, ""},
    {"adam_w_mode", "", boolean, "true", not_modelled, all, any_real, ""},
    {"bias_correction", "", boolean, "true", not_modelled, all, any_real, ""},
    {"amsgrad", "", boolean, "false", not_modelled, all, any_real, ""},
    {"maximize", "", boolean, "false", not_modelled, all, any_real, ""},
    {"torch_adam", "", boolean, "false", inert, all, any_real, ""},
    {"fp32_optimizer_states", "", boolean, "true", not_modelled, all, any_real, ""},
    {"set_grad_none", "", boolean, "true", inert, all, any_real, ""},
    {"fused", "", boolean_or_null, "null", inert, all, any_real, ""},
    {"foreach", "", boolean_or_null, "null", inert, all, any_real, ""},
    {"capturable", "", boolean, "false", inert, all, any_real, ""},
    {"differentiable", "", boolean, "false", inert, all, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all, any_real, ""},
};

constexpr std::string_view dtypes =
    "|fp32|float32|float|torch.float32|fp16|float16|half|torch.float16|bf16|bfloat16|torch."
    "bfloat16";
constexpr DsKey data_types[] = {
    {"grad_accum_dtype", "", word, "null", not_modelled, all, any_real, dtypes},
    {"param_dtype", "", any, "null", not_modelled, all, any_real, ""},
    {"buffer_dtype", "", any, "null", not_modelled, all, any_real, ""},
};

}  // namespace

DsSection ds_top_level() {
  return {top_level, false, false};
}
DsSection ds_offload_param() {
  return {offload_param, true, true};
}
DsSection ds_offload_optimizer() {
  return {offload_optimizer, true, true};
}
DsSection ds_fp16() {
  return {fp16, true, true};
}
DsSection ds_bf16() {
  return {bf16, true, true};
}
DsSection ds_optimizer() {
  return {optimizer, false, false};
}
DsSection ds_adam() {
  return {adam, false, true};
}
DsSection ds_data_types() {
  return {data_types, false, false};
}

}  // namespace shardmark
