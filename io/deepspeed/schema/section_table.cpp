// SPDX-License-Identifier: Apache-2.0
// Sections of a DeepSpeed config below the top level: precision, scheduler, offload.
// Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

constexpr RealRange share{0, 1};

constexpr DsKey offload_param[] = {
    {"device", "", word, "\"none\"", values, {3, 3}, any_real, "none|cpu|nvme"},
    {"nvme_path", "", text, "null", used, {3, 3}, any_real, ""},
    {"buffer_count", "", integer, "5", used, {3, 3}, not_negative, ""},
    {"buffer_size", "", integer, "100000000", used, {3, 3}, not_negative, ""},
    {"max_in_cpu", "", integer, "1000000000", used, {3, 3}, not_negative, ""},
    {"pin_memory", "", boolean, "true", used, {3, 3}, any_real, ""},
};

constexpr DsKey offload_optimizer[] = {
    {"device", "", word, "\"none\"", values, {1, 3}, any_real, "none|cpu|nvme"},
    {"nvme_path", "", text, "null", used, {3, 3}, any_real, ""},
    {"buffer_count", "", integer, "4", used, {3, 3}, not_negative, ""},
    {"pin_memory", "", boolean, "true", used, {1, 3}, any_real, ""},
    {"pipeline_read", "", boolean, "false", used, {3, 3}, any_real, ""},
    {"pipeline_write", "", boolean, "false", used, {3, 3}, any_real, ""},
    {"fast_init", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"ratio", "", number, "1.0", used, {3, 3}, share, ""},
    {"super_offload", "", boolean, "false", not_modelled, {3, 3}, any_real, ""},
    {"cpuadam_cores_perc", "", number, "0.8", inert, {3, 3}, share, ""},
};

constexpr RealRange positive_int{1, 1 << 30};
constexpr DsKey aio[] = {
    {"block_size", "", integer, "1048576", used, {3, 3}, positive_int, ""},
    {"queue_depth", "", integer, "8", used, {3, 3}, positive_int, ""},
    {"intra_op_parallelism", "", integer, "1", used, {3, 3}, positive_int, ""},
    {"single_submit", "", boolean, "false", inert, {3, 3}, any_real, ""},
    {"overlap_events", "", boolean, "true", inert, {3, 3}, any_real, ""},
    {"use_gds", "", boolean, "false", not_modelled, {3, 3}, any_real, ""},
};

constexpr DsKey fp16[] = {
    {"enabled", "", boolean, "false", used, all_stages, any_real, ""},
    {"auto_cast", "", boolean, "false", inert, all_stages, any_real, ""},
    {"loss_scale", "", number_not_boolean, "0", used, all_stages, not_negative, ""},
    {"initial_scale_power", "", integer, "16", used, all_stages, any_real, ""},
    {"loss_scale_window", "", integer_not_boolean, "1000", used, all_stages, any_real, ""},
    {"hysteresis", "", integer, "2", used, all_stages, any_real, ""},
    {"consecutive_hysteresis", "", boolean, "false", used, all_stages, any_real, ""},
    {"min_loss_scale", "", integer_not_boolean, "1", used, all_stages, any_real, ""},
    {"fp16_master_weights_and_grads", "", boolean, "false", not_modelled, all_stages, any_real, ""},
};

constexpr DsKey bf16[] = {
    {"enabled", "", boolean, "false", used, all_stages, any_real, ""},
    {"immediate_grad_update", "", boolean, "false", tunes, all_stages, any_real, ""},
    {"check_grad_overflow", "", boolean, "true", used, {1, 2}, any_real, ""},
    {"bf16_master_weights_and_grads", "", boolean, "false", values, {1, 3}, any_real, ""},
    {"bf16_optimizer_states", "", boolean, "false", values, {1, 3}, any_real, ""},
};

constexpr std::string_view dtypes =
    "|fp32|float32|float|torch.float32|fp16|float16|half|torch.float16|bf16|bfloat16|"
    "torch.bfloat16|int8|torch.int8";
constexpr DsKey data_types[] = {
    {"grad_accum_dtype", "", word, "null", used, all_stages, any_real, dtypes},
    {"param_dtype", "", word, "null", inert, all_stages, any_real, dtypes},
    {"buffer_dtype", "", word, "null", inert, all_stages, any_real, dtypes},
    {"keep_in_fp32_modules", "", names, "\"auto\"", inert, all_stages, any_real, "auto"},
};

constexpr DsKey torch_autocast[] = {
    {"enabled", "", truth, "false", used, all_stages, any_real, ""},
    {"dtype", "", word, "null", used, all_stages, any_real, dtypes.substr(1)},
    {"lower_precision_safe_modules", "", names, "null", used, {1, 3}, any_real, ""},
};

constexpr DsKey scheduler[] = {
    {"type", "", text, "null", used, all_stages, any_real, ""},
    {"params", "", any, "null", used, all_stages, any_real, ""},
};

// DeepSpeed calls each scheduler with its parameters by name, so an unknown name is an error.
constexpr DsKey warmup[] = {
    {"warmup_min_lr", "", any, "0.0", used, all_stages, any_real, ""},
    {"warmup_max_lr", "", any, "null", used, all_stages, any_real, ""},
    {"warmup_num_steps", "", any, "1000", used, all_stages, any_real, ""},
    {"warmup_type", "", any, "\"log\"", used, all_stages, any_real, ""},
    {"last_batch_iteration", "", any, "-1", not_modelled, all_stages, any_real, ""},
};

constexpr DsKey warmup_decay[] = {
    {"total_num_steps", "", any, "null", used, all_stages, any_real, ""},
    {"warmup_min_lr", "", any, "0.0", used, all_stages, any_real, ""},
    {"warmup_max_lr", "", any, "0.001", used, all_stages, any_real, ""},
    {"warmup_num_steps", "", any, "1000", used, all_stages, any_real, ""},
    {"warmup_type", "", any, "\"log\"", used, all_stages, any_real, ""},
    {"last_batch_iteration", "", any, "-1", not_modelled, all_stages, any_real, ""},
};

constexpr DsKey warmup_cosine[] = {
    {"total_num_steps", "", any, "null", used, all_stages, any_real, ""},
    {"warmup_min_ratio", "", number, "0.0", used, all_stages, any_real, ""},
    {"warmup_num_steps", "", any, "1000", used, all_stages, any_real, ""},
    {"cos_min_ratio", "", number, "0.0001", used, all_stages, any_real, ""},
    {"warmup_type", "", any, "\"log\"", used, all_stages, any_real, ""},
    {"last_batch_iteration", "", any, "-1", not_modelled, all_stages, any_real, ""},
};

}  // namespace

DsSection ds_offload_param() {
  return {offload_param, true, true};
}
DsSection ds_offload_optimizer() {
  return {offload_optimizer, true, true};
}
DsSection ds_aio() {
  return {aio, false, false};
}
DsSection ds_fp16() {
  return {fp16, true, true};
}
DsSection ds_bf16() {
  return {bf16, true, true};
}
DsSection ds_data_types() {
  return {data_types, false, false};
}
DsSection ds_torch_autocast() {
  return {torch_autocast, false, false};
}
DsSection ds_scheduler() {
  return {scheduler, false, false};
}
DsSection ds_warmup() {
  return {warmup, false, true};
}
DsSection ds_warmup_decay() {
  return {warmup_decay, false, true};
}
DsSection ds_warmup_cosine() {
  return {warmup_cosine, false, true};
}

}  // namespace shardmark
