// SPDX-License-Identifier: Apache-2.0
// The keys of `zero_optimization`, in DeepSpeed's order. Checked against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum KeyType;
using K = ZeroKnobs;

constexpr std::string_view elements = "elements";

// clang-format off
constexpr Key zero_keys[] = {
    Key("stage", in<&ZeroSpec::stage>, "what the ranks share: nothing, states, gradients too, all")
        .one_of("0|1|2|3").filled_by("hf"),
    Key("contiguous_gradients", in<&K::contiguous_gradients>, "gradients are copied into a bucket")
        .tunes(one_up),
    Key("reduce_scatter", in<&K::reduce_scatter>, "each rank gets its slice of a reduced bucket")
        .tunes(one_up),
    Key("reduce_bucket_size", in<&K::reduce_bucket_size>, "the elements of the gradient bucket")
        .at_least(1, elements).filled_by("hf").tunes(one_up),
    Key("compute_grad_norm", in<&K::compute_grad_norm>, "the norm of all gradients is computed")
        .tunes(one_two),
    Key("parameter_alignment", in<&K::parameter_alignment>,
        "each tensor starts at a multiple of 16 bytes in the flat buffer").tunes(one_two),
    Key("use_multi_rank_bucket_allreduce", in<&K::use_multi_rank_bucket_allreduce>,
        "a bucket is all-reduced, not reduced to each owner").tunes(one_two),
    Key("allgather_partitions", boolean, "true").dead(),
    Key("allgather_bucket_size", integer, "500000000").at_least(0, elements).dead(),
    Key("overlap_comm", in<&K::overlap_comm>, "gradients are reduced while backward runs")
        .of_type(boolean_or_null).or_else("null").tunes(one_up),
    Key("load_from_fp32_weights", boolean, "true"),
    Key("elastic_checkpoint", boolean, "false"),
    Key("offload_param", in<&ZeroSpec::offload_param>,
        "parameters are kept on the host or in files").of_type(object_or_null).used(three),
    Key("offload_optimizer", in<&ZeroSpec::offload_optimizer>,
        "optimizer states are kept on the host or in files").of_type(object_or_null).used(one_up),
    Key("zenflow", object_or_null, "null").refused(one_up),
    Key("sub_group_size", in<&K::sub_group_size>,
        "the elements per rank that the optimizer updates at once").at_least(0, elements)
        .tunes(three),
    Key("cpu_offload_param", boolean_or_null, "null", "the older spelling of offload_param")
        .changes(three),
    Key("cpu_offload_use_pin_memory", boolean_or_null, "null").inert(one_up),
    Key("cpu_offload", boolean_or_null, "null", "the older spelling of offload_optimizer")
        .changes(one_up),
    Key("prefetch_bucket_size", in<&K::prefetch_bucket_size>,
        "how many elements to request ahead at each module visit")
        .also("stage3_prefetch_bucket_size").at_least(0, elements).filled_by("hf").tunes(three),
    Key("param_persistence_threshold", in<&K::param_persistence_threshold>,
        "tensors up to this size stay gathered").also("stage3_param_persistence_threshold")
        .at_least(0, elements).filled_by("hf").tunes(three),
    Key("model_persistence_threshold", in<&K::model_persistence_threshold>,
        "how many elements may persist in total").also("stage3_model_persistence_threshold")
        .at_least(0, elements).tunes(three),
    Key("max_live_parameters", in<&K::max_live_parameters>,
        "how many gathered elements stop further prefetches").also("stage3_max_live_parameters")
        .at_least(0, elements).tunes(three),
    Key("max_reuse_distance", in<&K::max_reuse_distance>,
        "a parameter that is used again within so many elements is not released")
        .also("stage3_max_reuse_distance").at_least(0, elements).tunes(three),
    Key("gather_16bit_weights_on_model_save", boolean, "false")
        .also("stage3_gather_16bit_weights_on_model_save").inert(three),
    Key("module_granularity_threshold", integer, "0",
        "modules up to this number of parameters per module are gathered whole")
        .also("stage3_module_granularity_threshold").refused(three),
    Key("use_all_reduce_for_fetch_params", in<&K::use_all_reduce_for_fetch_params>,
        "a gather of two or more parameters becomes an all_reduce of zero-filled copies")
        .also("stage3_use_all_reduce_for_fetch_params").tunes(three),
    Key("allgather_sequential", in<&K::allgather_sequential>, "one gather per parameter")
        .also("stage3_allgather_sequential").tunes(three),
    Key("stage3_gather_fp16_weights_on_model_save", boolean, "false").inert(three),
    Key("ignore_unused_parameters", boolean, "true").inert(one_two),
    Key("legacy_stage1", boolean, "false"),
    Key("round_robin_gradients", in<&K::round_robin_gradients>,
        "assigns parameters to ranks in turn").tunes(one_two),
    Key("zero_hpz_partition_size", in<&K::hpz_partition_size>,
        "the ranks that share a secondary copy of the parameters").at_least(0, "ranks")
        .changes(three),
    Key("zero_quantized_weights", in<&K::quantized_weights>,
        "parameters are gathered as int8 with fp32 scales").changes(three),
    Key("zero_quantized_nontrainable_weights", boolean, "false").refused(three),
    Key("zero_quantized_gradients", in<&K::quantized_gradients>,
        "with several nodes gradients are sent as int4 with fp32 scales").changes(three),
    removed("mics_shard_size"),
    removed("mics_hierarchical_params_gather"),
    removed("zeropp_loco_param"),
    Key("memory_efficient_linear", in<&K::memory_efficient_linear>,
        "in a linear layer the gradient of the weight is ready before that of the bias")
        .tunes(three),
    Key("pipeline_loading_checkpoint", boolean, "false").inert(three),
    Key("override_module_apply", boolean, "true").inert(three),
    Key("log_trace_cache_warnings", boolean, "false").inert(three),
    Key("enable_sanity_checks", boolean, "false").refused(three),
    Key("save_muon_momentum_buffer_in_memory", in<&K::muon_momentum_in_memory>,
        "Muon's momentum stays in memory while other states lie in files").tunes(three),
    Key("leaf_module", object_or_null, "{}").used(three),
};
// clang-format on

constexpr Key leaf_module[] = {
    Key("classes", in<&K::leaves, &LeafModules::classes>, "").of_type(any).used(three),
    Key("names", in<&K::leaves, &LeafModules::names>, "").of_type(any).used(three),
    Key("name_suffixes", in<&K::leaves, &LeafModules::name_suffixes>, "").of_type(any).used(three),
};

}  // namespace

std::span<const Section> zero_sections() {
  static constexpr Section sections[] = {
      {"zero_optimization", zero_keys},
      {"zero_optimization.leaf_module", leaf_module},
  };
  return sections;
}

}  // namespace shardmark
