// SPDX-License-Identifier: Apache-2.0

#include <io/deepspeed/config.hpp>
#include <io/deepspeed/sections.hpp>

namespace shardmark {

namespace {

const std::string root = "deepspeed";

// `true` is an old way to ask for stage 1.
Json zero_object(const Json& value) {
  if (value.is_boolean()) return {{"stage", value.get<bool>() ? 1 : 0}};
  return value;
}

DsValues section_of(Origin& origin, const DsValues& parent, std::string_view name) {
  const Section& section = ds_section(join_key(parent.section().path, name));
  if (!parent.given(name) || parent.at(name).is_null()) return {parent.key(name), section};
  return {origin, parent.key(name), parent.at(name), section};
}

void check_batch_key(const DsValues& top, const Origin& origin, const Member& member) {
  const Json value = top.at(member);
  const auto v = as_integer(value);
  if (!value.is_null() && (!v || *v < 1))
    origin.refuse(top.key(member), value,
                  "must be an integer, at least 1" +
                      (value == "auto" ? ": " + auto_remedy(top.key(member)) : ""));
}

// A device other than none asks for offload. The table says why offload_param does nothing below
// stage 3.
void judge_offload(const DsConfig& c, Origin& origin, Schedule schedule) {
  if (c.zero.given("offload_optimizer")) c.offload_optimizer.judge(origin, c.stage, schedule);
  if (c.stage == 3 && c.zero.given("offload_param"))
    c.offload_param.judge(origin, c.stage, schedule);
}

void judge(const DsConfig& c, Origin& origin, Schedule schedule) {
  judge_offload(c, origin, schedule);
  for (const DsValues* values : {&c.top, &c.zero, &c.leaf_module, &c.fp16, &c.bf16, &c.data_types,
                                 &c.optimizer, &c.optimizer_params})
    values->judge(origin, c.stage, schedule);
  if (c.top.given("aio")) c.aio.judge(origin, c.stage, schedule);
  if (c.top.given("torch_autocast")) c.torch_autocast.judge(origin, c.stage, schedule);
  if (c.top.given("comms_logger")) c.comms_logger.judge(origin, c.stage, schedule);
  judge_parts(c, origin, schedule);
  if (!c.scheduler.at("type").is_null()) c.scheduler_params.judge(origin, c.stage, schedule);
}

}  // namespace

DsConfig parse_deepspeed(Origin& origin, const Json& config) {
  const DsValues top(origin, root, config, ds_section(""));
  const DsValues zero = top.given(zero_section)
                            ? DsValues(origin, top.key(zero_section),
                                       zero_object(top.at(zero_section)), ds_section(zero_section))
                            : DsValues(top.key(zero_section), ds_section(zero_section));
  const int stage = zero.at("stage").get<int>();
  const DsValues optimizer = section_of(origin, top, "optimizer");
  const DsValues scheduler = section_of(origin, top, "scheduler");
  return {.top = top,
          .zero = zero,
          .leaf_module = section_of(origin, zero, "leaf_module"),
          .offload_param = section_of(origin, zero, "offload_param"),
          .offload_optimizer = section_of(origin, zero, "offload_optimizer"),
          .aio = section_of(origin, top, "aio"),
          .fp16 = section_of(origin, top, "fp16"),
          .bf16 = section_of(origin, top, "bf16"),
          .data_types = section_of(origin, top, "data_types"),
          .optimizer = optimizer,
          .optimizer_params = optimizer_params_of(origin, optimizer),
          .scheduler = scheduler,
          .scheduler_params = scheduler_params_of(origin, scheduler),
          .comms_logger = section_of(origin, top, "comms_logger"),
          .torch_autocast = section_of(origin, top, "torch_autocast"),
          .parts = read_parts(origin, top, zero),
          .stage = stage};
}

ZeroSpec read_deepspeed(Origin& origin, const Json& config, Schedule schedule,
                        const DsModel& model) {
  DsConfig c = parse_deepspeed(origin, config);
  mute_without_effect(c);
  if (traits(schedule).follows_deepspeed) judge_with_model(c, origin, model);
  check_deepspeed_rules(c, origin);
  check_optimizer(c, origin, schedule);
  for (const Member* member : {&in<&ZeroSpec::train_batch_size>, &in<&ZeroSpec::micro_batch_size>,
                               &in<&ZeroSpec::accumulation_steps>})
    check_batch_key(c.top, origin, *member);
  Deck deck;
  for (const DsValues* values : {&c.top, &c.zero}) values->fill(deck);
  ZeroSpec& spec = deck.zero;
  if (!spec.train_batch_size && !spec.micro_batch_size)
    origin.missing(root,
                   "DeepSpeed needs a batch size: give train_batch_size or "
                   "train_micro_batch_size_per_gpu (--set "
                   "deepspeed.train_micro_batch_size_per_gpu=1)");
  spec.parallel = parallel_spec(c);
  spec.optimizer = optimizer_spec(c, origin);
  spec.scheduler = scheduler_spec(c, spec.optimizer, origin);
  spec.precision = precision_spec(c, origin);
  spec.precision.autocast = autocast_spec(c, origin, schedule);
  if (!traits(schedule).follows_deepspeed && spec.precision.comm != spec.precision.model)
    origin.not_modelled(c.top.key("communication_data_type"), c.top.at("communication_data_type"),
                        "remove the key, or set run.schedule to \"deepspeed\"");
  spec.knobs = zero_knobs(c);
  spec.offload_optimizer = offload_optimizer_spec(c, origin);
  spec.offload_param = offload_param_spec(c, origin);
  spec.aio = aio_spec(c);
  judge(c, origin, schedule);
  if (spec.gradient_clipping < 0)
    origin.note(FindingKind::warning, c.top.key("gradient_clipping"),
                "below 0: DeepSpeed accepts it, and does not clip");
  return spec;
}

namespace {

// DeepSpeed prints the breakdown after each step, whatever steps_per_print says. Here
// steps_per_print also applies to the breakdown, because that is what people who set both expect.
std::int64_t wall_clock_every(const DsConfig& c, const Origin& origin) {
  if (!c.top.flag("wall_clock_breakdown")) return 0;
  const Json every = c.top.at("steps_per_print");
  if (every.is_null()) return 1;
  const auto steps = as_integer(every);
  if (!steps || *steps < 1)
    origin.refuse(
        c.top.key("steps_per_print"), every,
        "must be an integer, at least 1: after how many steps wall_clock_breakdown prints");
  return *steps;
}

}  // namespace

DsLogSpec read_deepspeed_log(const Origin& origin, const Json& config) {
  // A copy, because read_deepspeed has already recorded the findings.
  Origin unused_findings = origin;
  const DsConfig c = parse_deepspeed(unused_findings, config);
  DsLogSpec log;
  log.wall_clock_every = wall_clock_every(c, origin);
  log.comms = c.comms_logger.flag("enabled");
  log.comms_all = c.comms_logger.flag("prof_all");
  log.comms_verbose = c.comms_logger.flag("verbose");
  for (const Json& op : c.comms_logger.at("prof_ops")) {
    if (!op.is_string())
      origin.refuse(c.comms_logger.key("prof_ops"), c.comms_logger.at("prof_ops"),
                    "must be a list of names, as in [\"all_reduce\"]");
    log.comms_ops.push_back(op);
  }
  return log;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

Json converted(const Json& object, const Section& section, const std::string& path);

// The value of a key as DeepSpeed takes it.
Json value_of(const Key& row, const Json& value, const Section& section, const std::string& path) {
  const Section* below = find_section(path);
  if (below != nullptr && value.is_object()) return converted(value, *below, path);
  if (path == zero_section && value.is_boolean()) return zero_object(value);
  return coerce(row, value, section.reading == Reading::model).value_or(value);
}

Json converted(const Json& object, const Section& section, const std::string& path) {
  Json result = Json::object();
  for (const auto& [name, value] : object.items()) {
    const Key* row = find_key(section.keys, name);
    if (row == nullptr || value.is_null() || value == "auto") continue;
    result[name] = value_of(*row, value, section, join_key(path, row->name));
  }
  return result;
}

// `cpu_offload` and `cpu_offload_param` are older spellings of the sections.
void replace_deprecated(Json& zero) {
  for (const auto& [old_name, name] : {std::pair{"cpu_offload", "offload_optimizer"},
                                       std::pair{"cpu_offload_param", "offload_param"}}) {
    const auto it = zero.find(old_name);
    if (it == zero.end()) continue;
    if (*it == true)
      zero[name] = {{"device", "cpu"},
                    {"pin_memory", zero.value("cpu_offload_use_pin_memory", true)}};
    zero.erase(old_name);
  }
  zero.erase("cpu_offload_use_pin_memory");
}

Json adamw(const OptimizerSpec& o) {
  return {{"type", "AdamW"},
          {"params",
           {{"lr", o.lr},
            {"betas", {o.beta1, o.beta2}},
            {"eps", o.eps},
            {"weight_decay", o.weight_decay}}}};
}

OrderedJson in_order(Json config) {
  OrderedJson ordered;
  for (const char* first : {"train_batch_size", "train_micro_batch_size_per_gpu",
                            "gradient_accumulation_steps", "gradient_clipping", "bf16", "bfloat16",
                            "fp16", "data_types", "optimizer", "scheduler", zero_section})
    if (const auto it = config.find(first); it != config.end()) {
      ordered[first] = *it;
      config.erase(it);
    }
  for (const auto& [name, value] : config.items()) ordered[name] = value;
  return ordered;
}

}  // namespace

OrderedJson complete_deepspeed(const Json& config, const ZeroSpec& zero, const Batch& batch) {
  Json result = converted(config, ds_section(""), "");
  result["train_batch_size"] = zero.parallel.train_batch_size(batch.global);
  result["train_micro_batch_size_per_gpu"] = batch.micro;
  result["gradient_accumulation_steps"] = batch.accumulation;
  if (!result.contains(zero_section)) result[zero_section] = {{"stage", zero.stage}};
  replace_deprecated(result[zero_section]);
  Json& optimizer = result["optimizer"];
  if (!optimizer.is_object() || !optimizer.contains("type")) optimizer = adamw(zero.optimizer);
  return in_order(std::move(result));
}

}  // namespace shardmark
