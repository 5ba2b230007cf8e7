// SPDX-License-Identifier: Apache-2.0
// The keys of `zero_optimization`, in DeepSpeed's order, and the section `optimizer` with the
// parameters of each optimizer. DeepSpeed gives these to the optimizer by name, so an unknown name
// is an error; a table has the names of all implementations between which DeepSpeed chooses.
// Checked against DeepSpeed 0.19.8 and torch 2.15.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {

namespace {

using enum KeyType;
using K = ZeroKnobs;

// clang-format off
constexpr Key zero_keys[] = {
    Key("stage", in<&ZeroSpec::stage>, "what the ranks share: nothing, states, gradients too, all")
        .one_of("0|1|2|3").filled_by("hf"),
    Key("contiguous_gradients", in<&K::contiguous_gradients>, "gradients are copied into a bucket")
        .tunes(one_up),
    Key("reduce_scatter", in<&K::reduce_scatter>, "each rank gets its slice of a reduced bucket")
        .tunes(one_up),
    Key("reduce_bucket_size", in<&K::reduce_bucket_size>, "the elements of the gradient bucket")
        .at_least(1).filled_by("hf").tunes(one_up),
    Key("compute_grad_norm", in<&K::compute_grad_norm>, "the norm of all gradients is computed")
        .tunes(one_two),
    Key("parameter_alignment", in<&K::parameter_alignment>,
        "each tensor starts at a multiple of 16 bytes in the flat buffer").tunes(one_two),
    Key("use_multi_rank_bucket_allreduce", in<&K::use_multi_rank_bucket_allreduce>,
        "a bucket is all-reduced, not reduced to each owner").tunes(one_two),
    Key("allgather_partitions", boolean, "true").dead(),
    Key("allgather_bucket_size", integer, "500000000").at_least(0).dead(),
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
        "the elements per rank that the optimizer updates at once").at_least(0)
        .tunes(three),
    Key("cpu_offload_param", boolean_or_null, "null", "the older spelling of offload_param")
        .changes(three),
    Key("cpu_offload_use_pin_memory", boolean_or_null, "null").inert(one_up),
    Key("cpu_offload", boolean_or_null, "null", "the older spelling of offload_optimizer")
        .changes(one_up),
    Key("prefetch_bucket_size", in<&K::prefetch_bucket_size>,
        "how many elements to request ahead at each module visit")
        .also("stage3_prefetch_bucket_size").at_least(0).filled_by("hf").tunes(three),
    Key("param_persistence_threshold", in<&K::param_persistence_threshold>,
        "tensors up to this size stay gathered").also("stage3_param_persistence_threshold")
        .at_least(0).filled_by("hf").tunes(three),
    Key("model_persistence_threshold", in<&K::model_persistence_threshold>,
        "how many elements may persist in total").also("stage3_model_persistence_threshold")
        .at_least(0).tunes(three),
    Key("max_live_parameters", in<&K::max_live_parameters>,
        "how many gathered elements stop further prefetches").also("stage3_max_live_parameters")
        .at_least(0).tunes(three),
    Key("max_reuse_distance", in<&K::max_reuse_distance>,
        "a parameter that is used again within so many elements is not released")
        .also("stage3_max_reuse_distance").at_least(0).tunes(three),
    Key("gather_16bit_weights_on_model_save", boolean, "false")
        .also("stage3_gather_16bit_weights_on_model_save").inert(three),
    Key("module_granularity_threshold", in<&K::leaves, &LeafModules::granularity>,
        "modules up to this number of parameters per module are gathered whole")
        .also("stage3_module_granularity_threshold").tunes(three),
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
        "the ranks that share a secondary copy of the parameters").at_least(0)
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
      {zero_section, zero_keys},
      {"zero_optimization.leaf_module", leaf_module},
  };
  return sections;
}

namespace {

using enum KeyType;
using O = OptimizerSpec;

constexpr Key optimizer[] = {
    Key("type", text, "null", "the name of the optimizer").used(),
    Key("params", object, "{}").used(),
    Key("legacy_fusion", truth, "false"),
};

// clang-format off
constexpr Key lr_key = Key("lr", in<&O::lr>, "the learning rate")
    .at_least(0).filled_by("hf.learning_rate").used();
constexpr Key weight_decay_key = Key("weight_decay", in<&O::weight_decay>, "the decay of parameters")
    .or_else("0").at_least(0).filled_by("hf.weight_decay").used();
constexpr Key eps_key = Key("eps", in<&O::eps>, "what is added to a denominator")
    .at_least(0).filled_by("hf.adam_epsilon").used();
constexpr Key betas_key = Key("betas", array, "[0.9,0.999]", "the decay of the averages of gradients")
    .filled_by("hf.adam_beta1 and hf.adam_beta2").used();
constexpr Key momentum_key = Key("momentum", in<&O::momentum>, "the decay of the sum of gradients")
    .at_least(0).used();
constexpr Key fp32_states_key = Key("fp32_optimizer_states", boolean, "true");
constexpr Key maximize_key = Key("maximize", truth, "false").refused();
constexpr Key foreach_key("foreach", boolean_or_null, "null"), fused_key("fused", boolean_or_null, "null");
constexpr Key differentiable_key("differentiable", boolean, "false");
constexpr Key set_grad_none_key("set_grad_none", boolean, "true");
constexpr Key torch_adam_key("torch_adam", truth, "false");
constexpr Key max_grad_norm_key = removed("max_grad_norm", "set gradient_clipping");

constexpr Key adam[] = {
    lr_key, betas_key, eps_key, weight_decay_key.or_else("0.01"),
    Key("adam_w_mode", truth, "true", "the decay does not pass through the averages").used(),
    Key("bias_correction", in<&O::bias_correction>, "the first steps divide by 1 - beta^step")
        .of_type(truth).used(),
    Key("amsgrad", truth, "false").refused(),
    maximize_key, torch_adam_key, fp32_states_key.refused(), set_grad_none_key, fused_key, foreach_key,
    Key("capturable", boolean, "false"),
    differentiable_key, max_grad_norm_key,
};

constexpr Key lion[] = {lr_key, betas_key, weight_decay_key, set_grad_none_key, fp32_states_key.refused(),
                        max_grad_norm_key};

constexpr Key sgd[] = {
    lr_key, momentum_key.or_else("0"),
    Key("dampening", in<&O::dampening>, "how much less a gradient adds to the momentum")
        .or_else("0").used(),
    weight_decay_key,
    Key("nesterov", in<&O::nesterov>, "Nesterov's momentum").of_type(truth).used(),
    maximize_key, foreach_key, differentiable_key, fused_key, max_grad_norm_key,
};

constexpr Key adagrad[] = {
    lr_key.or_else("0.01"),
    Key("lr_decay", in<&O::lr_decay>, "by how much the rate falls with the steps")
        .or_else("0").at_least(0).used(),
    weight_decay_key,
    Key("initial_accumulator_value", in<&O::first_accumulator>, "the first sum of squares")
        .or_else("0").at_least(0).used(),
    eps_key.or_else("1e-10"), maximize_key, foreach_key, differentiable_key, fused_key,
    Key("amsgrad", truth, "false").dead(),
    fp32_states_key.refused(), max_grad_norm_key,
};

// DeepSpeed takes what it knows of the names for the two halves of the parameters, and ignores the
// rest.
constexpr Key muon[] = {
    lr_key.or_else("0.02"),
    Key("muon_lr", number, "0.02", "the learning rate of matrices").at_least(0).used(),
    Key("adam_lr", number, "0.0003", "the learning rate of the other parameters").at_least(0)
        .used(),
    momentum_key.or_else("0.95").within({0, 1}),
    Key("ns_method", word, "\"gram\"", "the form of the Newton-Schulz iteration")
        .one_of("gram|standard").used(),
    weight_decay_key, betas_key.or_else("[0.9,0.95]"), eps_key.or_else("1e-10"),
    Key("adam_w_mode", truth, "true").refused(),
    Key("per_head_muon", truth, "false").refused(),
    torch_adam_key, foreach_key, fp32_states_key, max_grad_norm_key,
};
// clang-format on

}  // namespace

std::span<const Section> optimizer_sections() {
  static constexpr Section sections[] = {
      {"optimizer", optimizer, Reading::dictionary},
      {"optimizer.params", adam, Reading::arguments, {}, {}, {}, "adamw"},
      {"optimizer.params", lion, Reading::arguments, {}, {}, {}, "lion"},
      {"optimizer.params", sgd, Reading::arguments, {}, {}, {}, "sgd"},
      {"optimizer.params", adagrad, Reading::arguments, {}, {}, {}, "adagrad"},
      {"optimizer.params", muon, Reading::dictionary, {}, {}, {}, "muon"},
  };
  return sections;
}

}  // namespace shardmark
