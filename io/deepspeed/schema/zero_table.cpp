// SPDX-License-Identifier: Apache-2.0
// The keys of `zero_optimization`, in DeepSpeed's order. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

constexpr Stages one_up{1, 3}, one_two{1, 2}, three{3, 3};

constexpr DsKey zero_keys[] = {
    {"stage", "", integer, "0", used, all_stages, any_real, "0|1|2|3"},
    {"contiguous_gradients", "", boolean, "true", tunes, one_up, any_real, ""},
    {"reduce_scatter", "", boolean, "true", tunes, one_up, any_real, ""},
    {"reduce_bucket_size", "", integer, "500000000", tunes, one_up, {1}, ""},
    {"compute_grad_norm", "", boolean, "true", tunes, one_two, any_real, ""},
    {"parameter_alignment", "", boolean, "false", tunes, one_two, any_real, ""},
    {"use_multi_rank_bucket_allreduce", "", boolean, "true", tunes, one_two, any_real, ""},
    {"allgather_partitions", "", boolean, "true", dead, all_stages, any_real, ""},
    {"allgather_bucket_size", "", integer, "500000000", dead, all_stages, not_negative, ""},
    {"overlap_comm", "", boolean_or_null, "null", tunes, one_up, any_real, ""},
    {"load_from_fp32_weights", "", boolean, "true", inert, all_stages, any_real, ""},
    {"elastic_checkpoint", "", boolean, "false", inert, all_stages, any_real, ""},
    {"offload_param", "", object_or_null, "null", used, three, any_real, ""},
    {"offload_optimizer", "", object_or_null, "null", used, one_up, any_real, ""},
    {"zenflow", "", object_or_null, "null", not_modelled, one_up, any_real, ""},
    {"sub_group_size", "", integer, "1000000000", tunes, three, not_negative, ""},
    {"cpu_offload_param", "", boolean_or_null, "null", values, three, any_real, ""},
    {"cpu_offload_use_pin_memory", "", boolean_or_null, "null", inert, one_up, any_real, ""},
    {"cpu_offload", "", boolean_or_null, "null", values, one_up, any_real, ""},
    {"prefetch_bucket_size", "stage3_prefetch_bucket_size", integer, "50000000", tunes, three,
     not_negative, ""},
    {"param_persistence_threshold", "stage3_param_persistence_threshold", integer, "100000", tunes,
     three, not_negative, ""},
    {"model_persistence_threshold", "stage3_model_persistence_threshold", integer,
     "9223372036854775807", tunes, three, not_negative, ""},
    {"max_live_parameters", "stage3_max_live_parameters", integer, "1000000000", tunes, three,
     not_negative, ""},
    {"max_reuse_distance", "stage3_max_reuse_distance", integer, "1000000000", tunes, three,
     not_negative, ""},
    {"gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save", boolean,
     "false", inert, three, any_real, ""},
    {"module_granularity_threshold", "stage3_module_granularity_threshold", integer, "0",
     not_modelled, three, any_real, ""},
    {"use_all_reduce_for_fetch_params", "stage3_use_all_reduce_for_fetch_params", boolean, "false",
     tunes, three, any_real, ""},
    {"allgather_sequential", "stage3_allgather_sequential", boolean, "false", tunes, three,
     any_real, ""},
    {"stage3_gather_fp16_weights_on_model_save", "", boolean, "false", inert, three, any_real, ""},
    {"ignore_unused_parameters", "", boolean, "true", inert, one_two, any_real, ""},
    {"legacy_stage1", "", boolean, "false", inert, all_stages, any_real, ""},
    {"round_robin_gradients", "", boolean, "false", tunes, one_two, any_real, ""},
    {"zero_hpz_partition_size", "", integer, "1", values, three, not_negative, ""},
    {"zero_quantized_weights", "", boolean, "false", values, three, any_real, ""},
    {"zero_quantized_nontrainable_weights", "", boolean, "false", not_modelled, three, any_real,
     ""},
    {"zero_quantized_gradients", "", boolean, "false", values, three, any_real, ""},
    {"mics_shard_size", "", any, "null", removed, all_stages, any_real, ""},
    {"mics_hierarchical_params_gather", "", any, "null", removed, all_stages, any_real, ""},
    {"zeropp_loco_param", "", any, "null", removed, all_stages, any_real, ""},
    {"memory_efficient_linear", "", boolean, "true", tunes, three, any_real, ""},
    {"pipeline_loading_checkpoint", "", boolean, "false", inert, three, any_real, ""},
    {"override_module_apply", "", boolean, "true", inert, three, any_real, ""},
    {"log_trace_cache_warnings", "", boolean, "false", inert, three, any_real, ""},
    {"enable_sanity_checks", "", boolean, "false", not_modelled, three, any_real, ""},
    {"save_muon_momentum_buffer_in_memory", "", boolean, "false", tunes, three, any_real, ""},
    {"leaf_module", "", object_or_null, "{}", used, three, any_real, ""},
};

constexpr DsKey leaf_module[] = {
    {"classes", "", any, "[]", used, three, any_real, ""},
    {"names", "", any, "[]", used, three, any_real, ""},
    {"name_suffixes", "", any, "[]", used, three, any_real, ""},
};

}  // namespace

DsSection ds_leaf_module() {
  return {leaf_module, true, true};
}
DsSection ds_zero() {
  return {zero_keys, true, true};
}

}  // namespace shardmark
