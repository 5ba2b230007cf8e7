// SPDX-License-Identifier: Apache-2.0
// The section `scheduler`: DeepSpeed's three warm-up schedulers with their own defaults and errors.
// core/plan/deck/lr_schedule.hpp computes their learning rates.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

struct Known {
  std::string_view name;
  LrSchedule type;
};
constexpr std::array known{Known{"WarmupLR", LrSchedule::warmup},
                           Known{"WarmupDecayLR", LrSchedule::warmup_decay},
                           Known{"WarmupCosineLR", LrSchedule::warmup_cosine}};

// Schedulers that DeepSpeed finds in its own code or in PyTorch.
constexpr std::array<std::string_view, 17> others{
    "LRRangeTest",      "OneCycle",     "LambdaLR",          "MultiplicativeLR",
    "StepLR",           "MultiStepLR",  "ConstantLR",        "LinearLR",
    "ExponentialLR",    "SequentialLR", "PolynomialLR",      "CosineAnnealingLR",
    "ChainedScheduler", "CyclicLR",     "ReduceLROnPlateau", "CosineAnnealingWarmRestarts",
    "OneCycleLR"};

const Known& known_scheduler(const DsValues& scheduler, const Origin& origin) {
  const auto name = scheduler.at("type").get<std::string>();
  constexpr const char* remedy = "use \"WarmupLR\", \"WarmupDecayLR\" or \"WarmupCosineLR\"";
  const auto* it = std::ranges::find(known, name, &Known::name);
  if (it != known.end()) return *it;
  if (std::find(others.begin(), others.end(), name) != others.end())
    origin.not_modelled(scheduler.key("type"), name, remedy);
  origin.refuse(scheduler.key("type"), name,
                fmt::format("DeepSpeed knows no scheduler of this name: {}", remedy));
}

// Refuses a value; for an "auto" that nobody has filled it says what to give.
[[noreturn]] void refuse(const DsValues& params, std::string_view name, const Origin& origin,
                         std::string must) {
  const std::string key = params.key(name);
  if (params.at(name) == "auto") must += ": " + auto_remedy(key);
  origin.refuse(key, params.at(name), must);
}

// Reads a number, or a list with one number per parameter group. Muon has two groups, its matrices
// and the rest; otherwise all groups have the same rate here. Returns the rates of the first and of
// the last group.
std::pair<double, double> rates(const DsValues& params, std::string_view name, bool muon,
                                const Origin& origin) {
  const Json value = params.at(name);
  if (value.is_array() && !value.empty() && value.size() != (muon ? 2 : 1))
    origin.not_modelled(params.key(name), value,
                        muon ? "give one rate, or a list of two: for Muon and for AdamW"
                             : "give one rate for all parameter groups");
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.empty() || !list.front().is_number() || !list.back().is_number())
    refuse(params, name, origin, "must be a number");
  return {list.front().get<double>(), list.back().get<double>()};
}

std::int64_t warmup_steps(const DsValues& params, const Origin& origin) {
  const Json value = params.at("warmup_num_steps");
  const auto steps = as_integer(value);
  if (!value.is_number_integer() || !steps || *steps < 1)
    refuse(params, "warmup_num_steps", origin,
           "must be an integer, at least 1, without a fraction or an exponent");
  return *steps;
}

std::int64_t total_steps(const DsValues& params, const Origin& origin) {
  const Json value = params.at("total_num_steps");
  const std::string key = params.key("total_num_steps");
  if (value.is_null()) origin.missing(key, "the scheduler needs the number of steps: give it");
  if (!value.is_number()) refuse(params, "total_num_steps", origin, "must be a number of steps");
  const auto steps = as_integer(value);
  if (!steps) origin.not_modelled(key, value, "give a whole number of steps");
  return *steps;
}

bool is_linear(const DsValues& params, Origin& origin) {
  const Json type = params.at("warmup_type");
  const std::string key = params.key("warmup_type");
  if (type.is_structured()) origin.refuse(key, type, "must be \"log\" or \"linear\"");
  if (type != "log" && type != "linear")
    origin.note(FindingKind::warning, key,
                brief(type) + ": unknown to DeepSpeed, which takes \"log\"");
  return type == "linear";
}

}  // namespace

DsValues scheduler_params_of(Origin& origin, const DsValues& scheduler) {
  if (scheduler.at("type").is_null()) {
    if (scheduler.given("params"))
      origin.note(FindingKind::no_effect, scheduler.key("params"),
                  "the scheduler has no type, so DeepSpeed does not use this section");
    return {scheduler.key("params"), ds_section("scheduler.params", "WarmupLR")};
  }
  const Known& type = known_scheduler(scheduler, origin);
  if (scheduler.at("params").is_null())
    origin.missing(scheduler.key("params"),
                   "give the scheduler's parameters; {} takes the defaults");
  return {origin, scheduler.key("params"), scheduler.at("params"),
          ds_section("scheduler.params", type.name)};
}

SchedulerSpec scheduler_spec(const DsConfig& c, const OptimizerSpec& optimizer, Origin& origin) {
  if (c.scheduler.at("type").is_null()) return {};
  const DsValues& params = c.scheduler_params;
  Deck deck;
  params.fill(deck);
  SchedulerSpec& spec = deck.zero.scheduler;
  spec.type = known_scheduler(c.scheduler, origin).type;
  spec.warmup_num_steps = warmup_steps(params, origin);
  spec.linear = is_linear(params, origin);
  if (spec.type != LrSchedule::warmup_cosine) {
    const bool muon = is_muon(optimizer.type);
    std::tie(spec.warmup_min_lr, spec.adam_min_lr) = rates(params, "warmup_min_lr", muon, origin);
    std::tie(spec.warmup_max_lr, spec.adam_max_lr) =
        params.at("warmup_max_lr").is_null() ? std::pair{optimizer.lr, optimizer.adam_lr}
                                             : rates(params, "warmup_max_lr", muon, origin);
  }
  if (spec.type == LrSchedule::warmup) return spec;
  spec.total_num_steps = total_steps(params, origin);
  if (spec.total_num_steps < spec.warmup_num_steps)
    origin.note(FindingKind::warning, params.key("total_num_steps"),
                fmt::format("{}: below warmup_num_steps = {}: the decay has no steps",
                            spec.total_num_steps, spec.warmup_num_steps));
  return spec;
}

}  // namespace shardmark
