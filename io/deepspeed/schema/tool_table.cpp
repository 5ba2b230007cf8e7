// SPDX-License-Identifier: Apache-2.0
// Sections that only affect logging, profiling, checkpoints and tuning. They are read because
// DeepSpeed refuses some of their keys and values; only comms_logger has an effect here. Checked
// against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
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
