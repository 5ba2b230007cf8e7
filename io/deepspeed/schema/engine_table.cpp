// SPDX-License-Identifier: Apache-2.0
// Sections about other kinds of parallelism, compilation, data and inference. ShardMark models
// nothing of them: what acts is refused by name. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum KeyType;

constexpr Key compile[] = {
    Key("deepcompile", boolean, "false").refused(),
    Key("autoep_non_moe", boolean, "false").refused(),
    Key("free_activation", boolean, "false"),
    Key("free_activation_threshold", integer, "10485760"),
    Key("offload_activation", boolean, "false"),
    Key("offload_activation_pin_memory", boolean, "true"),
    Key("offload_opt_states", boolean, "false"),
    Key("double_buffer", boolean, "true"),
    Key("symmetric_memory", boolean, "false"),
    Key("debug_log", boolean, "false"),
    Key("offload_parameters", boolean, "false"),
    Key("sync_before_reduce", boolean, "false"),
    Key("sync_after_reduce", boolean, "false"),
    Key("sync_before_allgather", boolean, "false"),
    Key("sync_after_allgather", boolean, "false"),
    Key("keep_int_input_tensors", boolean, "true"),
    Key("keep_all_input_tensors", boolean, "false"),
    Key("passes", array, "null").one_of("z1|z3|autosp|autotp"),
};

// `autotp_size` is judged in rules.cpp: 0 and 1 divide nothing.
constexpr Key tensor_parallel[] = {
    Key("autotp_size", integer, "0", "the ranks that layers are divided over").used(),
    Key("dtype", python_object, "null"),
    Key("tp_overlap_comm", boolean, "false"),
    Key("vocab_parallel_lm_head", boolean_or_null, "null"),
    Key("vocab_parallel_ce_backend", word, "\"torch\"").one_of("torch|liger"),
    Key("tensor_parallel", object, "{}").also("tp").used(),
    Key("injection_policy_tuple", array, "null"),
    Key("partition_config", object_or_null, "null"),
    Key("preset_model", text, "null", "what AutoTP divides beside expert_parallel").used(),
    Key("keep_module_on_host", boolean, "false"),
    Key("replace_with_kernel_inject", boolean, "false").also("kernel_inject"),
};
constexpr Key tp_group_keys[] = {
    Key("tp_size", integer, "1"),
    Key("tp_grain_size", integer, "1"),
    Key("mpu", any, "null"),
    Key("tp_group", any, "null"),
};

// The keys that are refused make AutoEP find other modules, route otherwise, or send in another
// way.
constexpr Key expert_parallel[] = {
    Key("enabled", truth, "false", "divide experts").used(),
    Key("load_balance_coeff", any, "null").used(),
    Key("autoep_size", any, "1", "the ranks that divide the experts of a layer").used(),
    Key("expert_tensor_parallel_size", any, "1"),
    Key("validate_folding_routing", any, "false"),
    Key("async_split_plan", any, "false"),
    Key("preset_model", any, "null"),
    Key("moe_layer_pattern", any, "null").refused(),
    Key("expert_pattern", any, "null").refused(),
    Key("router_pattern", any, "null").refused(),
    Key("use_grouped_mm", any, "true"),
    Key("disable_triton_grouped_mm", any, "false"),
    Key("route_norm", any, "null").refused(),
    Key("route_scale", any, "1.0").refused(),
    Key("score_apply", any, "\"auto\"").refused(),
    Key("combine_impl", any, "\"auto\""),
    Key("row_weighting_impl", any, "\"auto\""),
    Key("gate_up_impl", any, "\"separate\""),
    Key("comm_backend", any, "\"comm\"").refused(),
    Key("comm_num_sm", any, "12"),
    Key("comm_qp_margin", any, "4"),
    Key("comm_max_tokens_per_rank", any, "0"),
    Key("num_expert_groups", any, "null").refused(),
    Key("num_limited_groups", any, "null").refused(),
    Key("score_func", any, "\"auto\"").refused(),
    Key("top_k", any, "\"auto\"").refused(),
    Key("routed_scaling_factor", any, "\"auto\"").refused(),
    Key("expert_w1", any, "null").refused(),
    Key("expert_w2", any, "null").refused(),
    Key("expert_w3", any, "null").refused(),
    Key("num_experts_attr", any, "null").refused(),
    Key("top_k_attr", any, "null").refused(),
    Key("has_shared_experts", any, "null").refused(),
    Key("shared_experts_pattern", any, "null").refused(),
    Key("shared_experts_gate_pattern", any, "null").refused(),
    Key("expert_activation", any, "null").refused(),
};

constexpr Key hybrid_engine[] = {
    Key("enabled", boolean, "false").refused(), Key("max_out_tokens", integer, "512").at_least(1),
    Key("inference_tp_size", integer, "1"),     Key("release_inference_cache", boolean, "false"),
    Key("pin_parameters", boolean, "true"),     Key("tp_gather_partition_size", integer, "8"),
    Key("enable_cuda_graph", boolean, "false"),
};

constexpr RealRange above_zero{0, 1, true}, part_of_one{0, 1};
constexpr Key zenflow[] = {
    Key("topk_ratio", number, "0.1").within(above_zero),
    Key("select_strategy", word, "\"auto\"").one_of("auto|step|epoch"),
    Key("select_interval", any, "\"auto\""),
    Key("update_interval", any, "\"auto\""),
    Key("overlap_step", boolean, "false"),
    Key("offload", boolean, "false"),
    Key("auto_ratio", number, "0.99").within(part_of_one),
    Key("full_warm_up_rounds", integer, "0"),
    Key("pt_reserved_cores_perc", number, "0.5").within(part_of_one),
    Key("steps_per_epoch", integer, "null"),
};

constexpr Key weight_quantization[] = {
    Key("quantized_initialization", object, "{}").refused(three),
    Key("enabled", boolean, "true"),
    Key("num_bits", integer, "8"),
    Key("q_type", word, "\"symmetric\"").one_of("symmetric|asymmetric"),
    Key("q_groups", integer, "1"),
    Key("post_init_quant", object, "{}"),
};

// The switches of the innermost sections count whatever the outer ones say.
constexpr Key data_efficiency[] = {
    Key("enabled", any, "false"),
    Key("seed", any, "1234"),
    Key("data_sampling", object, "{}").used(),
    Key("data_routing", object, "{}").used(),
};
constexpr Key data_sampling[] = {
    Key("enabled", any, "false"),
    Key("num_epochs", any, "1000"),
    Key("num_workers", any, "0"),
    Key("pin_memory", any, "false"),
    Key("curriculum_learning", object, "{}").used(),
    Key("dynamic_batching", object, "{}").used(),
};
constexpr Key curriculum_learning[] = {
    Key("enabled", truth, "false").refused(),
    Key("data_cluster_path", any, "null"),
    Key("curriculum_metrics", any, "null"),
};
constexpr Key dynamic_batching[] = {
    Key("enabled", truth, "false").refused(),
    Key("metrics_path", any, "null"),
    Key("lr_scaling_method", any, "\"linear\""),
    Key("min_batch_size", int_argument, "1"),
    Key("max_batch_size", int_argument, "null"),
    Key("sequence_picking_order", any, "\"dataloader\""),
    Key("max_tokens", any, "null"),
    Key("verbose", any, "false"),
};
constexpr Key data_routing[] = {
    Key("enabled", any, "false"),
    Key("random_ltd", object, "{}").used(),
};
constexpr Key random_ltd[] = {
    Key("enabled", truth, "false").refused(),    Key("total_layer_num", any, "null"),
    Key("random_ltd_layer_num", any, "null"),    Key("random_ltd_layer_id", any, "null"),
    Key("model_mask_name", any, "null"),         Key("model_type", any, "null"),
    Key("hidden_state_order", any, "null"),      Key("random_ltd_schedule", any, "null"),
    Key("layer_token_lr_schedule", any, "null"),
};

}  // namespace

std::span<const Section> engine_sections() {
  constexpr Judging by_key = Judging::by_key;
  static constexpr Section sections[] = {
      {"compile", compile, Reading::model, by_key, "deepcompile", "deepcompile is not enabled"},
      {"tensor_parallel", tensor_parallel, Reading::model, by_key, "autotp_size",
       "autotp_size does not divide the model"},
      {"tensor_parallel.tensor_parallel", tp_group_keys, Reading::model, by_key},
      {"expert_parallel", expert_parallel, Reading::dictionary, by_key, "enabled",
       "it is not enabled"},
      {"hybrid_engine", hybrid_engine, Reading::model, by_key, "enabled", "it is not enabled"},
      {"zero_optimization.zenflow", zenflow, Reading::model, Judging::as_a_whole},
      {"weight_quantization", weight_quantization, Reading::model, by_key,
       "quantized_initialization", "quantized_initialization is empty"},
      {"data_efficiency", data_efficiency, Reading::dictionary, by_key},
      {"data_efficiency.data_sampling", data_sampling, Reading::dictionary, by_key},
      {"data_efficiency.data_sampling.curriculum_learning", curriculum_learning,
       Reading::dictionary, by_key, "enabled", "it is not enabled"},
      {"data_efficiency.data_sampling.dynamic_batching", dynamic_batching, Reading::dictionary,
       by_key, "enabled", "it is not enabled"},
      {"data_efficiency.data_routing", data_routing, Reading::dictionary, by_key},
      {"data_efficiency.data_routing.random_ltd", random_ltd, Reading::dictionary, by_key,
       "enabled", "it is not enabled"},
  };
  return sections;
}

}  // namespace shardmark
