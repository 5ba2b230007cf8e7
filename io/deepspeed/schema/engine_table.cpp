// SPDX-License-Identifier: Apache-2.0
// Sections about other kinds of parallelism, compilation, data and inference. ShardMark models
// nothing of them: what acts is refused by name. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

constexpr DsKey plain(std::string_view name, DsType type, std::string_view fallback,
                      RealRange range = any_real, std::string_view words = "") {
  return {name, "", type, fallback, inert, all_stages, range, words};
}
// A key that switches the section on.
constexpr DsKey acts(std::string_view name, DsType type = boolean,
                     std::string_view fallback = "false", Stages stages = all_stages) {
  return {name, "", type, fallback, not_modelled, stages, any_real, ""};
}

constexpr DsKey compile[] = {
    acts("deepcompile"),
    acts("autoep_non_moe"),
    plain("free_activation", boolean, "false"),
    plain("free_activation_threshold", integer, "10485760"),
    plain("offload_activation", boolean, "false"),
    plain("offload_activation_pin_memory", boolean, "true"),
    plain("offload_opt_states", boolean, "false"),
    plain("double_buffer", boolean, "true"),
    plain("symmetric_memory", boolean, "false"),
    plain("debug_log", boolean, "false"),
    plain("offload_parameters", boolean, "false"),
    plain("sync_before_reduce", boolean, "false"),
    plain("sync_after_reduce", boolean, "false"),
    plain("sync_before_allgather", boolean, "false"),
    plain("sync_after_allgather", boolean, "false"),
    plain("keep_int_input_tensors", boolean, "true"),
    plain("keep_all_input_tensors", boolean, "false"),
    plain("passes", array, "null", any_real, "z1|z3|autosp|autotp"),
};

// `autotp_size` is judged in rules.cpp: 0 and 1 divide nothing.
constexpr DsKey tensor_parallel[] = {
    {"autotp_size", "", integer, "0", used, all_stages, any_real, ""},
    plain("dtype", python_object, "null"),
    plain("tp_overlap_comm", boolean, "false"),
    plain("vocab_parallel_lm_head", boolean_or_null, "null"),
    plain("vocab_parallel_ce_backend", word, "\"torch\"", any_real, "torch|liger"),
    {"tensor_parallel", "tp", object, "{}", used, all_stages, any_real, ""},
    plain("injection_policy_tuple", array, "null"),
    plain("partition_config", object_or_null, "null"),
    plain("preset_model", text, "null"),
    plain("keep_module_on_host", boolean, "false"),
    {"replace_with_kernel_inject", "kernel_inject", boolean, "false", inert, all_stages, any_real,
     ""},
};
constexpr DsKey tp_group_keys[] = {
    plain("tp_size", integer, "1"),
    plain("tp_grain_size", integer, "1"),
    plain("mpu", any, "null"),
    plain("tp_group", any, "null"),
};

constexpr DsKey expert_parallel[] = {
    acts("enabled", truth),
    {"load_balance_coeff", "", any, "null", used, all_stages, any_real, ""},
    plain("autoep_size", any, "1"),
    plain("expert_tensor_parallel_size", any, "1"),
    plain("validate_folding_routing", any, "false"),
    plain("async_split_plan", any, "false"),
    plain("preset_model", any, "null"),
    plain("moe_layer_pattern", any, "null"),
    plain("expert_pattern", any, "null"),
    plain("router_pattern", any, "null"),
    plain("use_grouped_mm", any, "true"),
    plain("disable_triton_grouped_mm", any, "false"),
    plain("route_norm", any, "null"),
    plain("route_scale", any, "1.0"),
    plain("score_apply", any, "\"auto\""),
    plain("combine_impl", any, "\"auto\""),
    plain("row_weighting_impl", any, "\"auto\""),
    plain("gate_up_impl", any, "\"separate\""),
    plain("comm_backend", any, "\"comm\""),
    plain("comm_num_sm", any, "12"),
    plain("comm_qp_margin", any, "4"),
    plain("comm_max_tokens_per_rank", any, "0"),
    plain("num_expert_groups", any, "null"),
    plain("num_limited_groups", any, "null"),
    plain("score_func", any, "\"auto\""),
    plain("top_k", any, "\"auto\""),
    plain("routed_scaling_factor", any, "\"auto\""),
    plain("expert_w1", any, "null"),
    plain("expert_w2", any, "null"),
    plain("expert_w3", any, "null"),
    plain("num_experts_attr", any, "null"),
    plain("top_k_attr", any, "null"),
    plain("has_shared_experts", any, "null"),
    plain("shared_experts_pattern", any, "null"),
    plain("shared_experts_gate_pattern", any, "null"),
    plain("expert_activation", any, "null"),
};

constexpr DsKey hybrid_engine[] = {
    acts("enabled"),
    plain("max_out_tokens", integer, "512", {1}),
    plain("inference_tp_size", integer, "1"),
    plain("release_inference_cache", boolean, "false"),
    plain("pin_parameters", boolean, "true"),
    plain("tp_gather_partition_size", integer, "8"),
    plain("enable_cuda_graph", boolean, "false"),
};

constexpr RealRange above_zero{0, 1, true}, part_of_one{0, 1};
constexpr DsKey zenflow[] = {
    plain("topk_ratio", number, "0.1", above_zero),
    plain("select_strategy", word, "\"auto\"", any_real, "auto|step|epoch"),
    plain("select_interval", any, "\"auto\""),
    plain("update_interval", any, "\"auto\""),
    plain("overlap_step", boolean, "false"),
    plain("offload", boolean, "false"),
    plain("auto_ratio", number, "0.99", part_of_one),
    plain("full_warm_up_rounds", integer, "0"),
    plain("pt_reserved_cores_perc", number, "0.5", part_of_one),
    plain("steps_per_epoch", integer, "null"),
};

constexpr DsKey weight_quantization[] = {
    acts("quantized_initialization", object, "{}", {3, 3}),
    plain("enabled", boolean, "true"),
    plain("num_bits", integer, "8"),
    plain("q_type", word, "\"symmetric\"", any_real, "symmetric|asymmetric"),
    plain("q_groups", integer, "1"),
    plain("post_init_quant", object, "{}"),
};

// The switches of the innermost sections count whatever the outer ones say.
constexpr DsKey data_efficiency[] = {
    plain("enabled", any, "false"),
    plain("seed", any, "1234"),
    {"data_sampling", "", object, "{}", used, all_stages, any_real, ""},
    {"data_routing", "", object, "{}", used, all_stages, any_real, ""},
};
constexpr DsKey data_sampling[] = {
    plain("enabled", any, "false"),
    plain("num_epochs", any, "1000"),
    plain("num_workers", any, "0"),
    plain("pin_memory", any, "false"),
    {"curriculum_learning", "", object, "{}", used, all_stages, any_real, ""},
    {"dynamic_batching", "", object, "{}", used, all_stages, any_real, ""},
};
constexpr DsKey curriculum_learning[] = {
    acts("enabled", truth),
    plain("data_cluster_path", any, "null"),
    plain("curriculum_metrics", any, "null"),
};
constexpr DsKey dynamic_batching[] = {
    acts("enabled", truth),
    plain("metrics_path", any, "null"),
    plain("lr_scaling_method", any, "\"linear\""),
    plain("min_batch_size", int_argument, "1"),
    plain("max_batch_size", int_argument, "null"),
    plain("sequence_picking_order", any, "\"dataloader\""),
    plain("max_tokens", any, "null"),
    plain("verbose", any, "false"),
};
constexpr DsKey data_routing[] = {
    plain("enabled", any, "false"),
    {"random_ltd", "", object, "{}", used, all_stages, any_real, ""},
};
constexpr DsKey random_ltd[] = {
    acts("enabled", truth),
    plain("total_layer_num", any, "null"),
    plain("random_ltd_layer_num", any, "null"),
    plain("random_ltd_layer_id", any, "null"),
    plain("model_mask_name", any, "null"),
    plain("model_type", any, "null"),
    plain("hidden_state_order", any, "null"),
    plain("random_ltd_schedule", any, "null"),
    plain("layer_token_lr_schedule", any, "null"),
};

const DsPart engine_parts[] = {
    {"compile", ds_model(compile), true, "deepcompile", "deepcompile is not enabled"},
    {"tensor_parallel", ds_model(tensor_parallel), true, "autotp_size",
     "autotp_size does not divide the model"},
    {"tensor_parallel.tensor_parallel", ds_model(tp_group_keys), true},
    {"expert_parallel", ds_dictionary(expert_parallel), true, "enabled", "it is not enabled"},
    {"hybrid_engine", ds_model(hybrid_engine), true, "enabled", "it is not enabled"},
    {"zero_optimization.zenflow", ds_model(zenflow)},
    {"weight_quantization", ds_model(weight_quantization), true, "quantized_initialization",
     "quantized_initialization is empty"},
    {"data_efficiency", ds_dictionary(data_efficiency), true},
    {"data_efficiency.data_sampling", ds_dictionary(data_sampling), true},
    {"data_efficiency.data_sampling.curriculum_learning", ds_dictionary(curriculum_learning), true,
     "enabled", "it is not enabled"},
    {"data_efficiency.data_sampling.dynamic_batching", ds_dictionary(dynamic_batching), true,
     "enabled", "it is not enabled"},
    {"data_efficiency.data_routing", ds_dictionary(data_routing), true},
    {"data_efficiency.data_routing.random_ltd", ds_dictionary(random_ltd), true, "enabled",
     "it is not enabled"},
};

}  // namespace

std::span<const DsPart> ds_engine_parts() {
  return engine_parts;
}

}  // namespace shardmark
