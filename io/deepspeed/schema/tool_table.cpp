// SPDX-License-Identifier: Apache-2.0
// Sections that only affect logging, profiling, checkpoints and tuning. They are read because
// DeepSpeed refuses some of their keys and values; only comms_logger has an effect here. Checked
// against DeepSpeed 0.19.8.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;

constexpr DsKey flag(std::string_view name, std::string_view fallback) {
  return {name, "", boolean, fallback, DsEffect::inert, {}, {}, ""};
}
constexpr DsKey words(std::string_view name, std::string_view fallback) {
  return {name, "", text, fallback, DsEffect::inert, {}, {}, ""};
}

constexpr DsKey files[] = {flag("enabled", "false"), words("output_path", "\"\""),
                           words("job_name", "\"DeepSpeedJobName\"")};
constexpr DsKey wandb[] = {flag("enabled", "false"), words("group", "null"), words("team", "null"),
                           words("project", "\"deepspeed\"")};
constexpr DsKey comet[] = {
    flag("enabled", "false"),
    {"samples_log_interval", "", integer, "100", DsEffect::inert, {}, {}, ""},
    words("project", "null"),
    words("workspace", "null"),
    words("api_key", "null"),
    words("experiment_name", "null"),
    words("experiment_key", "null"),
    {"online", "", boolean_or_null, "null", DsEffect::inert, {}, {}, ""},
    words("mode", "null")};
constexpr DsKey comms_logger[] = {{"enabled", "", boolean, "false", DsEffect::used, {}, {}, ""},
                                  {"prof_all", "", boolean, "true", DsEffect::used, {}, {}, ""},
                                  {"prof_ops", "", array, "[]", DsEffect::used, {}, {}, ""},
                                  {"verbose", "", boolean, "false", DsEffect::used, {}, {}, ""},
                                  {"debug", "", boolean, "false", DsEffect::used, {}, {}, ""}};

constexpr DsKey anything(std::string_view name, std::string_view fallback = "null") {
  return {name, "", any, fallback, DsEffect::inert, {}, {}, ""};
}

constexpr DsKey throughput[] = {flag("enabled", "true"), flag("synchronized", "true")};
constexpr DsKey timers[] = {{"throughput", "", object, "{}", DsEffect::inert, {}, {}, ""}};
constexpr DsKey flops_profiler[] = {
    {"enabled", "", boolean, "false", DsEffect::inert, {}, {}, ""},
    anything("recompute_fwd_factor", "0.0"),
    anything("profile_step", "1"),
    anything("module_depth", "-1"),
    anything("top_modules", "1"),
    anything("detailed", "true"),
    anything("output_file"),
};
constexpr DsKey activation_checkpointing[] = {
    anything("partition_activations", "false"),
    anything("number_checkpoints"),
    anything("contiguous_memory_optimization", "false"),
    anything("synchronize_checkpoint_boundary", "false"),
    anything("profile", "false"),
    anything("cpu_checkpointing", "false"),
};
constexpr DsKey checkpoint[] = {
    {"tag_validation", "", word_any_case, "\"warn\"", DsEffect::inert, {}, {}, "ignore|warn|fail"},
    anything("load_universal", "false"),
    anything("use_node_local_storage", "false"),
    {"parallel_write", "", object, "{}", DsEffect::inert, {}, {}, ""},
    anything("checkpoint_serialization", "true"),
    {"writer", "", object_or_null, "null", DsEffect::inert, {}, {}, ""},
};
constexpr DsKey parallel_write[] = {
    {"pipeline_stage", "", one_or_zero, "false", DsEffect::inert, {}, {}, ""}};
constexpr DsKey writer[] = {
    {"type", "", word_any_case, "null", DsEffect::inert, {}, {}, "mock|python|fast"},
    anything("io_buffer_size", "67108864"),
    anything("io_buffer_double", "true"),
    anything("show_statistics", "false"),
    {"data_parallel", "", word_any_case, "null", DsEffect::inert, {}, {}, "replica|socket|machine"},
    anything("decoupled", "false"),
    anything("io_multiplier", "1"),
};
constexpr DsKey model_info[] = {anything("profile", "false"), anything("num_params"),
                                anything("hidden_size"), anything("num_layers")};
constexpr DsKey autotuning[] = {
    anything("enabled", "false"),
    anything("fast", "true"),
    {"results_dir", "", not_empty, "\"autotuning_results\"", DsEffect::inert, {}, {}, ""},
    {"exps_dir", "", not_empty, "\"autotuning_exps\"", DsEffect::inert, {}, {}, ""},
    anything("overwrite", "true"),
    anything("start_profile_step", "3"),
    anything("end_profile_step", "5"),
    anything("metric", "\"throughput\""),
    anything("metric_path"),
    anything("tuner_type", "\"gridsearch\""),
    anything("tuner_early_stopping", "5"),
    anything("tuner_num_trials", "50"),
    anything("arg_mappings"),
    {"model_info", "", object_or_null, "null", DsEffect::inert, {}, {}, ""},
    anything("model_info_path"),
    anything("mp_size", "1"),
    anything("max_train_batch_size"),
    anything("min_train_batch_size", "1"),
    anything("max_train_micro_batch_size_per_gpu"),
    anything("min_train_micro_batch_size_per_gpu", "1"),
    anything("num_tuning_micro_batch_sizes", "3"),
};

const DsPart tool_parts[] = {
    {"tensorboard", ds_model(files)},
    {"csv_monitor", ds_model(files)},
    {"wandb", ds_model(wandb)},
    {"comet", ds_model(comet)},
    {"timers", ds_dictionary(timers)},
    {"timers.throughput", ds_model(throughput)},
    {"flops_profiler", ds_dictionary(flops_profiler)},
    {"activation_checkpointing", ds_dictionary(activation_checkpointing)},
    {"checkpoint", ds_dictionary(checkpoint)},
    {"checkpoint.parallel_write", ds_dictionary(parallel_write)},
    {"checkpoint.writer", ds_dictionary(writer)},
    {"autotuning", ds_dictionary(autotuning)},
    {"autotuning.model_info", ds_dictionary(model_info)},
};

}  // namespace

DsSection ds_comms_logger() {
  return {comms_logger, true, true};
}

std::span<const DsPart> ds_tool_parts() {
  return tool_parts;
}

std::vector<DsPart> ds_parts() {
  std::vector<DsPart> all(ds_tool_parts().begin(), ds_tool_parts().end());
  all.insert(all.end(), ds_engine_parts().begin(), ds_engine_parts().end());
  return all;
}

}  // namespace shardmark
