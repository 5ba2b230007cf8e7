// SPDX-License-Identifier: Apache-2.0
// The knobs of DeepSpeed's schedule, and which keys are made ineffective by other keys of the same
// config. `shardmark deck check` lists such a key, and its knob keeps the default.
#include <algorithm>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

bool replicated(const DsConfig& c) {
  return c.stage == 0;
}
bool flat(const DsConfig& c) {
  return c.stage == 1 || c.stage == 2;
}

void mute_precision(DsConfig& c) {
  const auto mute_scaling = [&](std::initializer_list<const char*> names, const char* why) {
    for (const char* name : names) c.fp16.mute(name, why);
  };
  if (!c.fp16.flag("enabled"))
    mute_scaling({"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                  "consecutive_hysteresis", "min_loss_scale", "auto_cast"},
                 "fp16 is not enabled");
  else if (c.fp16.number("loss_scale") != 0)
    mute_scaling({"initial_scale_power", "loss_scale_window", "hysteresis",
                  "consecutive_hysteresis", "min_loss_scale"},
                 "the loss scale is static");
  else if (replicated(c))
    mute_scaling({"hysteresis", "consecutive_hysteresis"},
                 "at stage 0 every overflow halves the loss scale");
  if (!c.bf16.flag("enabled")) {
    for (const char* name : {"immediate_grad_update", "check_grad_overflow"})
      c.bf16.mute(name, "bf16 is not enabled");
  } else if (uses_bf16_optimizer(c)) {
    c.bf16.mute("check_grad_overflow", "bf16 with fp32 accumulation is not checked at stage 1");
  } else {
    c.bf16.mute(
        "immediate_grad_update",
        offloads_optimizer(c)
            ? "has an effect only without offload_optimizer, at stage 1 with fp32 accumulation"
            : "has an effect only at stage 1 with fp32 accumulation");
  }
}

// Autocast decides by module in which type a gradient is sent. The engine, which reduces at stage
// 0, does not ask it.
void mute_autocast(DsConfig& c) {
  if (!autocasts(c))
    for (const char* name : {"dtype", "lower_precision_safe_modules"})
      c.torch_autocast.mute(name, "torch_autocast is not enabled");
  else if (!replicated(c))
    c.top.mute("communication_data_type",
               "torch_autocast decides in which type each gradient is sent");
}

void mute_buckets(DsConfig& c) {
  if (uses_bf16_optimizer(c)) {
    for (const char* name :
         {"contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "overlap_comm",
          "use_multi_rank_bucket_allreduce", "round_robin_gradients", "parameter_alignment"})
      c.zero.mute(
          name, "bf16 with fp32 accumulation at stage 1 reduces one flat buffer per group instead");
  } else if (flat(c) && c.zero.effective("contiguous_gradients") != true) {
    for (const char* name : {"reduce_scatter", "use_multi_rank_bucket_allreduce"})
      c.zero.mute(name, "without contiguous_gradients every bucket is all-reduced");
  } else if (flat(c) && !c.zero.flag("reduce_scatter")) {
    c.zero.mute("use_multi_rank_bucket_allreduce",
                "without reduce_scatter every bucket is all-reduced");
  } else if (c.stage == 3 && !c.zero.flag("contiguous_gradients")) {
    c.zero.mute("reduce_scatter", "without contiguous_gradients every bucket is reduce-scattered");
  }
}

void mute_fetches(DsConfig& c) {
  if (c.stage != 3) return;
  if (c.zero.flag("allgather_sequential"))
    c.zero.mute("prefetch_bucket_size", "allgather_sequential makes it 1");
  else if (c.zero.at("prefetch_bucket_size") == 0)
    c.zero.mute("max_live_parameters", "it only throttles the prefetch, which is off");
  if (c.zero.at("param_persistence_threshold") == 0)
    c.zero.mute("model_persistence_threshold", "no parameter is persistent");
  if (c.zero.at("zero_hpz_partition_size") == 0)
    c.zero.mute("zero_hpz_partition_size", "there is no secondary partition");
  if (c.zero.flag("zero_quantized_weights"))
    c.zero.mute("use_all_reduce_for_fetch_params", "quantized parameters are always gathered");
  if (c.zero.at("module_granularity_threshold").get<std::int64_t>() <= 0)
    c.zero.mute("module_granularity_threshold", "modules are gathered one by one");
}

// Only some of DeepSpeed's reductions use the keys about the scaling of gradients.
void mute_scaling(DsConfig& c) {
  const bool all_reduces_in_place =
      flat(c) && c.zero.effective("contiguous_gradients") == true && !c.zero.flag("reduce_scatter");
  const bool scales = replicated(c) || uses_bf16_optimizer(c) || all_reduces_in_place;
  const bool sums = c.top.at("gradient_allreduce_op") == "sum";
  if (!scales && c.stage != 3) {
    for (const char* name : {"prescale_gradients", "gradient_predivide_factor"})
      c.top.mute(name,
                 "at stages 1 and 2 only buckets all-reduced whole (contiguous_gradients, "
                 "no reduce_scatter) are scaled by it");
  } else if (sums) {
    for (const char* name : {"prescale_gradients", "gradient_predivide_factor"})
      c.top.mute(name, "gradients are summed, not averaged");
  } else if (c.stage == 3) {
    c.top.mute("prescale_gradients", "stage 3 divides before it sums in any case");
    if (c.top.flag("prescale_gradients"))
      c.top.mute("gradient_predivide_factor", "prescale_gradients replaces it");
  } else if (c.top.flag("prescale_gradients")) {
    c.top.mute("gradient_predivide_factor", "prescale_gradients replaces it");
  }
}

// A scheduler with rates of its own overwrites the learning rate of the optimizer.
void mute_rate(DsConfig& c) {
  const Json type = c.scheduler.at("type");
  const bool own_rates = type == "WarmupLR" || type == "WarmupDecayLR";
  if (own_rates && !c.scheduler_params.at("warmup_max_lr").is_null())
    for (const char* name : {"lr", "muon_lr", "adam_lr"})
      c.optimizer_params.mute(name, "the scheduler sets the rate");
}

void mute_logging(DsConfig& c) {
  if (!c.top.flag("wall_clock_breakdown"))
    c.top.mute("steps_per_print",
               "it affects only wall_clock_breakdown; a run reports its own progress by time");
  if (!c.comms_logger.flag("enabled"))
    for (const char* name : {"prof_all", "prof_ops", "verbose"})
      c.comms_logger.mute(name, "comms_logger is not enabled");
  else if (c.comms_logger.flag("prof_all"))
    c.comms_logger.mute("prof_ops", "prof_all selects every collective");
  c.comms_logger.mute("debug", "it prints the calling Python functions, and ShardMark has none");
}

}  // namespace

void mute_without_effect(DsConfig& c) {
  mute_logging(c);
  mute_parts(c);
  mute_beside_offload(c);
  mute_precision(c);
  mute_autocast(c);
  mute_buckets(c);
  mute_fetches(c);
  mute_scaling(c);
  mute_rate(c);
}

ZeroKnobs zero_knobs(const DsConfig& c) {
  Deck deck;
  for (const DsValues* values : {&c.top, &c.zero, &c.bf16}) values->fill(deck);
  ZeroKnobs k = deck.zero.knobs;
  const Json overlap = c.zero.effective("overlap_comm");
  k.overlap_comm = overlap.is_null() ? c.stage == 3 : overlap == true;
  if (k.allgather_sequential && c.stage == 3) k.prefetch_bucket_size = 1;
  k.hpz_partition_size = std::max<std::int64_t>(1, k.hpz_partition_size);
  k.sums_gradients = c.top.at("gradient_allreduce_op") == "sum";
  return k;
}

}  // namespace shardmark
