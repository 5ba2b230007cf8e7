// SPDX-License-Identifier: Apache-2.0
// The trainer's own part. Each function names the step of the trainer that it follows.
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/text.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/hf/accelerate.hpp>
#include <io/hf/config_filler.hpp>

namespace shardmark {
namespace {

// Python's ==: true is 1, 1 is 1.0, and text is never a number.
bool python_equal(const Json& a, const Json& b) {
  const auto plain = [](const Json& v) { return v.is_boolean() ? Json(v == true ? 1 : 0) : v; };
  if (!a.is_array() || !b.is_array()) return plain(a) == plain(b);
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!python_equal(a[i], b[i])) return false;
  return true;
}

class TrainerFiller {
 public:
  TrainerFiller(PluginConfig& config, const HfArguments& hf, const FillContext& context)
      : config_(config), hf_(hf), context_(context) {}

  // HfTrainerDeepSpeedConfig.trainer_config_process
  void process() {
    fill_match("train_micro_batch_size_per_gpu", hf_.per_device_train_batch_size);
    fill_match("gradient_accumulation_steps", hf_.gradient_accumulation_steps);
    train_batch_size();
    fill_match("gradient_clipping", hf_.max_grad_norm);
    fill_match("optimizer.params.lr", hf_.learning_rate);
    match("optimizer.params.betas", Json::array({hf_.adam_beta1, hf_.adam_beta2}),
          hf_.source("adam_beta1") + " and " + hf_.source("adam_beta2"));
    fill_match("optimizer.params.eps", hf_.adam_epsilon);
    fill_match("optimizer.params.weight_decay", hf_.weight_decay);
    config_.fill("scheduler.params.warmup_min_lr", 0, "the trainer always takes 0");
    fill_match("scheduler.params.warmup_max_lr", hf_.learning_rate);
    enabled("fp16", hf_.fp16 || hf_.fp16_full_eval);
    enabled("bf16", hf_.bf16 || hf_.bf16_full_eval);
  }

  // HfTrainerDeepSpeedConfig.trainer_config_finalize, after the model is known
  void finalize(std::optional<std::int64_t> hidden) {
    fill_sizes(config_, hidden,
               config_.get("zero_optimization.stage") != nullptr &&
                   python_equal(*config_.get("zero_optimization.stage"), 3));
    total_steps();
    warmup_steps();
    refuse_mismatches();
  }

  // The trainer makes what the config does not name: AdamW and a schedule of the rate.
  void complete() {
    check_optim();
    if (!config_.get("optimizer")) {
      const Json params = {{"lr", hf_.learning_rate},
                           {"betas", {hf_.adam_beta1, hf_.adam_beta2}},
                           {"eps", hf_.adam_epsilon},
                           {"weight_decay", hf_.weight_decay}};
      config_.add("optimizer", {{"type", "AdamW"}, {"params", params}},
                  "absent: the trainer makes its own AdamW from hf");
    }
    if (!config_.get("scheduler"))
      config_.origin().note(
          FindingKind::warning, config_key("scheduler"),
          "absent: the trainer would lower the rate step by step; here it stays as it is: add a "
          "scheduler, for example WarmupDecayLR with \"auto\" values");
  }

 private:
  // Kinds of AdamW whose states are two fp32 tensors, on the device.
  void check_optim() const {
    const std::string& optim = hf_.optim;
    if (optim.empty()) return;
    Origin& origin = config_.origin();
    if (config_.get("optimizer"))
      return origin.note(
          FindingKind::no_effect, "hf.optim",
          fmt::format("\"{}\": the optimizer of the DeepSpeed config replaces it", optim));
    if (optim != "adamw_torch" && optim != "adamw_torch_fused" && optim != "adamw_hf")
      origin.not_modelled("hf.optim", optim,
                          "use \"adamw_torch\", or name an optimizer in the DeepSpeed config");
  }

  // The record of the key names the argument.
  void fill_match(std::string_view path, const Json& value) {
    constexpr std::string_view section = "hf.";
    match(path, value, hf_.source(hf_key_of(path).substr(section.size())));
  }

  // HfTrainerDeepSpeedConfig.fill_match
  void match(std::string_view path, const Json& value, const std::string& source) {
    if (config_.is_auto(path)) return config_.fill(path, value, source);
    const Json* given = config_.get(path);
    if (given != nullptr && !python_equal(*given, value))
      mismatches_.push_back(
          fmt::format("{} = {}, but {} = {}", path, brief(*given), source, brief(value)));
  }

  void enabled(const std::string& type, bool value) {
    const std::string eval = type + "_full_eval";
    match(type + ".enabled", value, hf_.source(hf_.given.contains(eval) ? eval : type));
  }

  // Without the number of ranks, the size is left to be inferred from its factors.
  void train_batch_size() {
    constexpr std::string_view key = "train_batch_size";
    const std::int64_t per_rank =
        checked_mul(hf_.per_device_train_batch_size, hf_.gradient_accumulation_steps, key);
    const std::string factors = hf_.source("per_device_train_batch_size") + " x " +
                                hf_.source("gradient_accumulation_steps");
    if (context_.world)
      return match(key, checked_mul(per_rank, *context_.world, key),
                   fmt::format("{} x {}", factors, plural(*context_.world, "rank")));
    if (config_.is_auto(key)) {
      config_.origin().note(FindingKind::filled, config_key(key),
                            fmt::format("{} x ranks: {}", per_rank, factors));
      const Json* steps = config_.get("gradient_accumulation_steps");
      const std::int64_t divisor = steps ? as_integer(*steps).value_or(1) : 1;
      if (!config_.get("train_micro_batch_size_per_gpu") && divisor > 0)
        config_.add("train_micro_batch_size_per_gpu", per_rank / divisor, factors);
      return config_.remove(key);
    }
    const Json* given = config_.get(key);
    const auto size = given ? as_integer(*given) : std::nullopt;
    if (!given) return;
    if (!size || *size < 1 || *size % per_rank != 0)
      mismatches_.push_back(fmt::format("{} = {}, but {} x ranks = {} x ranks", key, brief(*given),
                                        factors, per_rank));
    else
      config_.origin().note(
          FindingKind::warning, config_key(key),
          fmt::format("{}: the trainer accepts it on {} only, because {} = {}", *size,
                      plural(*size / per_rank, "rank"), factors, per_rank));
  }

  // Throws DeckError if only the length of the data set, which is unknown here, decides.
  std::int64_t max_steps(std::string_view path) const {
    if (hf_.max_steps < 1)
      config_.origin().refuse(config_key(path), *config_.get(path),
                              "the trainer computes it from the number of steps, which is unknown "
                              "without its data set: give hf.max_steps, or a value");
    return hf_.max_steps;
  }

  void total_steps() {
    const std::string path = "scheduler.params.total_num_steps";
    if (config_.is_auto(path))
      config_.fill(path, max_steps(path), hf_.source("max_steps"));
    else if (hf_.max_steps >= 1)
      fill_match(path, hf_.max_steps);
  }

  // TrainingArguments.get_warmup_steps; the trainer takes at least 1, as DeepSpeed asks for.
  void warmup_steps() {
    const std::string path = "scheduler.params.warmup_num_steps";
    const bool fraction = hf_.warmup_steps > 0 ? hf_.warmup_steps < 1 : hf_.warmup_ratio > 0;
    const std::string name =
        hf_.warmup_steps == 0 && hf_.warmup_ratio > 0 ? "warmup_ratio" : "warmup_steps";
    if (!config_.get(path) || (fraction && hf_.max_steps < 1 && !config_.is_auto(path))) return;
    const double part = hf_.warmup_steps > 0 ? hf_.warmup_steps : hf_.warmup_ratio;
    const std::int64_t steps =
        fraction ? static_cast<std::int64_t>(std::ceil(static_cast<double>(max_steps(path)) * part))
                 : static_cast<std::int64_t>(hf_.warmup_steps);
    match(path, std::max<std::int64_t>(1, steps),
          hf_.source(name) + (fraction ? " x " + hf_.source("max_steps") : "") +
              (steps < 1 ? ", and at least 1" : ""));
  }

  void refuse_mismatches() const {
    if (mismatches_.empty()) return;
    throw DeckError(fmt::format(
        "{}: the trainer refuses what contradicts its arguments in hf: {}: set these values of the "
        "config to \"auto\", or give hf the same ones",
        config_.origin().place("deepspeed"), join(mismatches_, "; ")));
  }

  PluginConfig& config_;
  const HfArguments& hf_;
  const FillContext& context_;
  std::vector<std::string> mismatches_;
};

std::optional<std::int64_t> hidden_size(Origin& origin, const FillContext& context) {
  const ModelSpec& model = *context.model;
  const auto own = model.hidden > 0 ? std::optional<std::int64_t>(model.hidden) : std::nullopt;
  if (!context.hf || !context.hf->hidden_size) return own;
  if (own && *own != *context.hf->hidden_size)
    origin.refuse("hf.hidden_size", *context.hf->hidden_size,
                  fmt::format("the model has {}: remove the key, which is for models of family "
                              "\"list\"",
                              *own));
  return context.hf->hidden_size;
}

}  // namespace

void fill_sizes(PluginConfig& config, std::optional<std::int64_t> hidden, bool fills_stage3) {
  const std::string zero = "zero_optimization.";
  const std::string bucket = zero + "reduce_bucket_size";
  const std::string prefetch = zero + "stage3_prefetch_bucket_size";
  const std::string threshold = zero + "stage3_param_persistence_threshold";
  for (const std::string& path : {bucket, prefetch, threshold})
    if (!hidden && config.is_auto(path))
      config.origin().refuse(config_key(path), "auto",
                             "it follows from the model's hidden size, which a model of family "
                             "\"list\" does not state: give hf.hidden_size, or a value");
  if (!hidden) return;
  const auto h = static_cast<double>(*hidden);
  config.fill(bucket, *hidden * *hidden, fmt::format("hidden x hidden, hidden = {}", *hidden));
  if (!fills_stage3) return;
  config.fill(prefetch, static_cast<std::int64_t>(0.9 * h * h),
              fmt::format("0.9 x hidden x hidden, hidden = {}", *hidden));
  config.fill(threshold, 10 * *hidden, fmt::format("10 x hidden, hidden = {}", *hidden));
}

Json fill_config(Origin& origin, const Json& config, const FillContext& context) {
  const bool accelerate = is_accelerate_config(config);
  if (!config.is_object() || (!context.hf && !accelerate)) return config;
  const auto hidden = hidden_size(origin, context);
  const std::string hf_type = context.hf ? context.hf->mixed_precision() : "";
  PluginConfig filled(origin,
                      accelerate ? accelerate_config(origin, config, context.world) : config);
  if (!context.hf) {
    complete_without_trainer(filled, accelerate_precision(origin, config), hidden);
    return filled.take();
  }
  TrainerFiller trainer(filled, *context.hf, context);
  if (accelerate) {
    filled.complete();
    const std::string type = accelerate_precision(origin, config);
    filled.set_mixed_precision(
        hf_type.empty() ? type : hf_type,
        hf_type.empty() ? "mixed_precision of Accelerate's config" : context.hf->source(hf_type));
    trainer.process();
  } else {
    trainer.process();
    filled.complete();
    const Json* other = filled.get(hf_type == "fp16" ? "bf16.enabled" : "fp16.enabled");
    const bool contradicts = other != nullptr && *other == true;  // finalize() says so
    if (!hf_type.empty() && !contradicts)
      filled.set_mixed_precision(hf_type, context.hf->source(hf_type));
  }
  trainer.finalize(hidden);
  trainer.complete();
  return filled.take();
}

}  // namespace shardmark
