// SPDX-License-Identifier: Apache-2.0
// Sections that only affect logging. They are read because DeepSpeed refuses unknown keys in them;
// only comms_logger has an effect here. Checked against DeepSpeed 0.19.8.
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

constexpr DsLogSection sections[] = {{"tensorboard", {files, true, true}},
                                     {"csv_monitor", {files, true, true}},
                                     {"wandb", {wandb, true, true}},
                                     {"comet", {comet, true, true}}};

}  // namespace

DsSection ds_comms_logger() {
  return {comms_logger, true, true};
}

std::span<const DsLogSection> ds_log_sections() {
  return sections;
}

}  // namespace shardmark
