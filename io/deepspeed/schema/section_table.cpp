// SPDX-License-Identifier: Apache-2.0
// Sections of a DeepSpeed config below the top level: precision, scheduler, offload, and those that
// only affect logging, profiling, checkpoints and tuning. The latter are read because DeepSpeed
// refuses some of their keys and values; only comms_logger has an effect here. Checked against
// DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {

namespace {

using enum KeyType;
using K = ZeroKnobs;
using Offload = OffloadSpec;
using Scale = LossScaleSpec;
constexpr auto to_params = &ZeroSpec::offload_param;
constexpr auto to_states = &ZeroSpec::offload_optimizer;

constexpr RealRange share{0, 1};

// clang-format off
constexpr Key offload_param[] = {
    Key("device", word, "\"none\"", "where parameters are kept").one_of("none|cpu|nvme")
        .changes(three),
    Key("nvme_path", text, "null", "the folder of the files of device nvme").used(three),
    Key("buffer_count", in<to_params, &Offload::buffer_count>,
        "the buffers on the host that files are read into").or_else("5").at_least(0)
        .used(three),
    Key("buffer_size", in<to_params, &Offload::buffer_size>, "the elements per buffer")
        .or_else("100000000").at_least(0).used(three),
    Key("max_in_cpu", in<to_params, &Offload::max_in_cpu>, "the elements that stay in host memory")
        .or_else("1000000000").at_least(0).used(three),
    Key("pin_memory", in<to_params, &Offload::pin_memory>, "buffers on the host are page-locked")
        .used(three),
};

constexpr Key offload_optimizer[] = {
    Key("device", word, "\"none\"", "where optimizer states are kept").one_of("none|cpu|nvme")
        .changes(one_up),
    Key("nvme_path", text, "null", "the folder of the files of device nvme").used(three),
    Key("buffer_count", in<to_states, &Offload::buffer_count>,
        "the buffers on the host that files are read into").at_least(0).used(three),
    Key("pin_memory", in<to_states, &Offload::pin_memory>, "buffers on the host are page-locked")
        .used(one_up),
    Key("pipeline_read", in<to_states, &Offload::pipeline_read>,
        "the next sub-group is read while one is updated").used(three),
    Key("pipeline_write", in<to_states, &Offload::pipeline_write>,
        "a sub-group is written while the next one is updated").used(three),
    Key("fast_init", boolean, "false").inert(three),
    Key("ratio", in<to_states, &Offload::ratio>, "the part of the sub-groups that is offloaded")
        .within(share).used(three),
    Key("super_offload", boolean, "false").refused(three),
    Key("cpuadam_cores_perc", number, "0.8").inert(three).within(share),
};
// clang-format on

constexpr RealRange positive_int{1, 1 << 30};
// clang-format off
constexpr Key aio[] = {
    Key("block_size", in<&AioSpec::block_size>, "the size of one read or write")
        .within(positive_int).used(three),
    Key("queue_depth", in<&AioSpec::queue_depth>, "the reads or writes in flight")
        .within(positive_int).used(three),
    Key("intra_op_parallelism", integer, "1", "file sizes are multiples of 1024 times this")
        .within(positive_int).used(three),
    Key("single_submit", boolean, "false").inert(three),
    Key("overlap_events", boolean, "true").inert(three),
    Key("use_gds", boolean, "false").refused(three),
};

constexpr Key fp16[] = {
    Key("enabled", boolean, "false", "the model is trained in fp16").filled_by("hf.fp16").used(),
    Key("auto_cast", boolean, "false"),
    Key("loss_scale", number_not_boolean, "0", "the static loss scale; 0: it is dynamic")
        .at_least(0).used(),
    Key("initial_scale_power", integer, "16", "the first dynamic loss scale is 2 to this power")
        .used(),
    Key("loss_scale_window", in<&Scale::window>,
        "after so many steps without overflow the scale doubles").of_type(integer_not_boolean),
    Key("hysteresis", in<&Scale::hysteresis>, "the overflow from which on the scale is halved"),
    Key("consecutive_hysteresis", in<&Scale::consecutive_hysteresis>,
        "a step without overflow restores the hysteresis"),
    Key("min_loss_scale", in<&Scale::min_scale>, "the smallest dynamic loss scale")
        .of_type(integer_not_boolean).or_else("1"),
    Key("fp16_master_weights_and_grads", boolean, "false").refused(),
};

constexpr Key bf16[] = {
    Key("enabled", boolean, "false", "the model is trained in bf16").filled_by("hf.bf16").used(),
    Key("immediate_grad_update", in<&K::immediate_grad_update>,
        "each bf16 gradient is freed once it is added to the fp32 one").tunes(),
    Key("check_grad_overflow", boolean, "true", "steps whose gradients overflow are skipped")
        .used(one_two),
    Key("bf16_master_weights_and_grads", boolean, "false",
        "the master and its gradients are kept in bf16").changes(one_up),
    Key("bf16_optimizer_states", boolean, "false", "the moments are kept in bf16").changes(one_up),
};
// clang-format on

constexpr std::string_view dtypes =
    "|fp32|float32|float|torch.float32|fp16|float16|half|torch.float16|bf16|bfloat16|"
    "torch.bfloat16|int8|torch.int8";
// clang-format off
constexpr Key data_types[] = {
    Key("grad_accum_dtype", word, "null", "the type in which gradients of micro-batches add up")
        .one_of(dtypes).used(),
    Key("param_dtype", word, "null").one_of(dtypes),
    Key("buffer_dtype", word, "null").one_of(dtypes),
    Key("keep_in_fp32_modules", names, "\"auto\"").one_of("auto"),
};

constexpr Key torch_autocast[] = {
    Key("enabled", truth, "false", "products are computed in 16 bits").used(),
    Key("dtype", word, "null", "the type of the products").one_of(dtypes.substr(1)).used(),
    Key("lower_precision_safe_modules", names, "null",
        "the classes whose parameters are sent in that type").used(one_up),
};
// clang-format on

constexpr Key scheduler[] = {
    Key("type", text, "null", "the name of the scheduler").used(),
    Key("params", any, "null").used(),
};

// DeepSpeed calls each scheduler with its parameters by name, so an unknown name is an error.
// clang-format off
constexpr Key min_lr_key = Key("warmup_min_lr", any, "0.0", "the rate of the first step")
    .filled_by("hf").used();
constexpr Key max_lr_key = Key("warmup_max_lr", any, "null", "the rate after the warm-up")
    .filled_by("hf.learning_rate").used();
constexpr Key warmup_steps_key = Key("warmup_num_steps", any, "1000", "the steps of the warm-up")
    .filled_by("hf.warmup_steps").used();
constexpr Key warmup_type_key = Key("warmup_type", any, "\"log\"", "how the rate rises").used();
constexpr Key total_steps_key = Key("total_num_steps", any, "null",
    "the steps until the rate has fallen to its end").filled_by("hf.max_steps").used();
constexpr Key last_batch_key = Key("last_batch_iteration", any, "-1").refused();

constexpr Key warmup[] = {min_lr_key, max_lr_key, warmup_steps_key, warmup_type_key, last_batch_key};
constexpr Key warmup_decay[] = {total_steps_key,  min_lr_key,      max_lr_key.or_else("0.001"),
                                warmup_steps_key, warmup_type_key, last_batch_key};
constexpr Key warmup_cosine[] = {
    total_steps_key,
    Key("warmup_min_ratio", in<&SchedulerSpec::warmup_min_ratio>, "the first part of the rate").used(),
    warmup_steps_key,
    Key("cos_min_ratio", in<&SchedulerSpec::cos_min_ratio>, "the last part of the rate").used(),
    warmup_type_key, last_batch_key,
};
// clang-format on

}  // namespace

std::span<const Section> typed_sections() {
  static constexpr Section sections[] = {
      {"zero_optimization.offload_param", offload_param},
      {"zero_optimization.offload_optimizer", offload_optimizer},
      {"aio", aio, Reading::dictionary},
      {.path = "fp16", .keys = fp16, .gate = "enabled", .gate_is_off = "fp16 is not enabled"},
      {.path = "bf16", .keys = bf16, .gate = "enabled", .gate_is_off = "bf16 is not enabled"},
      {"data_types", data_types, Reading::dictionary},
      {.path = "torch_autocast",
       .keys = torch_autocast,
       .reading = Reading::dictionary,
       .gate = "enabled",
       .gate_is_off = "torch_autocast is not enabled"},
      {"scheduler", scheduler, Reading::dictionary},
      {"scheduler.params", warmup, Reading::arguments, {}, {}, {}, "WarmupLR"},
      {"scheduler.params", warmup_decay, Reading::arguments, {}, {}, {}, "WarmupDecayLR"},
      {"scheduler.params", warmup_cosine, Reading::arguments, {}, {}, {}, "WarmupCosineLR"},
  };
  return sections;
}

namespace {

using enum KeyType;

constexpr Key files[] = {
    Key("enabled", boolean, "false"),
    Key("output_path", text, "\"\""),
    Key("job_name", text, "\"DeepSpeedJobName\""),
};
constexpr Key wandb[] = {
    Key("enabled", boolean, "false"),
    Key("group", text, "null"),
    Key("team", text, "null"),
    Key("project", text, "\"deepspeed\""),
};
constexpr Key comet[] = {
    Key("enabled", boolean, "false"),    Key("samples_log_interval", integer, "100"),
    Key("project", text, "null"),        Key("workspace", text, "null"),
    Key("api_key", text, "null"),        Key("experiment_name", text, "null"),
    Key("experiment_key", text, "null"), Key("online", boolean_or_null, "null"),
    Key("mode", text, "null"),
};
constexpr Key comms_logger[] = {
    Key("enabled", boolean, "false", "collectives are counted and timed").used(),
    Key("prof_all", boolean, "true", "all collectives are").used(),
    Key("prof_ops", array, "[]", "the collectives that are").used(),
    Key("verbose", boolean, "false", "each collective is printed").used(),
    Key("debug", boolean, "false", "with the calling function").used(),
};

constexpr Key throughput[] = {
    Key("enabled", boolean, "true"),
    Key("synchronized", boolean, "true"),
};
constexpr Key timers[] = {
    Key("throughput", object, "{}"),
};
constexpr Key flops_profiler[] = {
    Key("enabled", boolean, "false"), Key("recompute_fwd_factor", any, "0.0"),
    Key("profile_step", any, "1"),    Key("module_depth", any, "-1"),
    Key("top_modules", any, "1"),     Key("detailed", any, "true"),
    Key("output_file", any, "null"),
};
constexpr Key activation_checkpointing[] = {
    Key("partition_activations", any, "false"),
    Key("number_checkpoints", any, "null"),
    Key("contiguous_memory_optimization", any, "false"),
    Key("synchronize_checkpoint_boundary", any, "false"),
    Key("profile", any, "false"),
    Key("cpu_checkpointing", any, "false"),
};
constexpr Key checkpoint[] = {
    Key("tag_validation", word_any_case, "\"warn\"").one_of("ignore|warn|fail"),
    Key("load_universal", any, "false"),
    Key("use_node_local_storage", any, "false"),
    Key("parallel_write", object, "{}"),
    Key("checkpoint_serialization", any, "true"),
    Key("writer", object_or_null, "null"),
};
constexpr Key parallel_write[] = {
    Key("pipeline_stage", one_or_zero, "false"),
};
constexpr Key writer[] = {
    Key("type", word_any_case, "null").one_of("mock|python|fast"),
    Key("io_buffer_size", any, "67108864"),
    Key("io_buffer_double", any, "true"),
    Key("show_statistics", any, "false"),
    Key("data_parallel", word_any_case, "null").one_of("replica|socket|machine"),
    Key("decoupled", any, "false"),
    Key("io_multiplier", any, "1"),
};
constexpr Key model_info[] = {
    Key("profile", any, "false"),
    Key("num_params", any, "null"),
    Key("hidden_size", any, "null"),
    Key("num_layers", any, "null"),
};
constexpr Key autotuning[] = {
    Key("enabled", any, "false"),
    Key("fast", any, "true"),
    Key("results_dir", not_empty, "\"autotuning_results\""),
    Key("exps_dir", not_empty, "\"autotuning_exps\""),
    Key("overwrite", any, "true"),
    Key("start_profile_step", any, "3"),
    Key("end_profile_step", any, "5"),
    Key("metric", any, "\"throughput\""),
    Key("metric_path", any, "null"),
    Key("tuner_type", any, "\"gridsearch\""),
    Key("tuner_early_stopping", any, "5"),
    Key("tuner_num_trials", any, "50"),
    Key("arg_mappings", any, "null"),
    Key("model_info", object_or_null, "null"),
    Key("model_info_path", any, "null"),
    Key("mp_size", any, "1"),
    Key("max_train_batch_size", any, "null"),
    Key("min_train_batch_size", any, "1"),
    Key("max_train_micro_batch_size_per_gpu", any, "null"),
    Key("min_train_micro_batch_size_per_gpu", any, "1"),
    Key("num_tuning_micro_batch_sizes", any, "3"),
};

}  // namespace

std::span<const Section> tool_sections() {
  constexpr Judging whole = Judging::as_a_whole;
  static constexpr Section sections[] = {
      {.path = "comms_logger",
       .keys = comms_logger,
       .gate = "enabled",
       .gate_is_off = "comms_logger is not enabled"},
      {"tensorboard", files, Reading::model, whole},
      {"csv_monitor", files, Reading::model, whole},
      {"wandb", wandb, Reading::model, whole},
      {"comet", comet, Reading::model, whole},
      {"timers", timers, Reading::dictionary, whole},
      {"timers.throughput", throughput, Reading::model, whole},
      {"flops_profiler", flops_profiler, Reading::dictionary, whole},
      {"activation_checkpointing", activation_checkpointing, Reading::dictionary, whole},
      {"checkpoint", checkpoint, Reading::dictionary, whole},
      {"checkpoint.parallel_write", parallel_write, Reading::dictionary, whole},
      {"checkpoint.writer", writer, Reading::dictionary, whole},
      {"autotuning", autotuning, Reading::dictionary, whole},
      {"autotuning.model_info", model_info, Reading::dictionary, whole},
  };
  return sections;
}

}  // namespace shardmark
