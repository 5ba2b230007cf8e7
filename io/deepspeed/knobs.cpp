// SPDX-License-Identifier: Apache-2.0
// The knobs of DeepSpeed's schedule, and which keys are made ineffective by other keys of the same
// config. `shardmark deck check` lists such a key, and its knob keeps the default.
#include <algorithm>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

using K = ZeroKnobs;
using Scale = LossScaleSpec;

bool replicated(const DsConfig& c) {
  return c.stage == 0;
}
bool flat(const DsConfig& c) {
  return c.stage == 1 || c.stage == 2;
}

void mute_precision(DsConfig& c) {
  c.fp16.mute_behind_gate();
  c.bf16.mute_behind_gate();
  if (c.fp16.number("loss_scale") != 0)
    c.fp16.mute({"initial_scale_power", in<&Scale::window>, in<&Scale::hysteresis>,
                 in<&Scale::consecutive_hysteresis>, in<&Scale::min_scale>},
                "the loss scale is static");
  else if (replicated(c))
    c.fp16.mute({in<&Scale::hysteresis>, in<&Scale::consecutive_hysteresis>},
                "at stage 0 every overflow halves the loss scale");
  if (uses_bf16_optimizer(c))
    c.bf16.mute("check_grad_overflow", "bf16 with fp32 accumulation is not checked at stage 1");
  else
    c.bf16.mute(
        in<&K::immediate_grad_update>,
        offloads_optimizer(c)
            ? "has an effect only without offload_optimizer, at stage 1 with fp32 accumulation"
            : "has an effect only at stage 1 with fp32 accumulation");
}

// Autocast decides by module in which type a gradient is sent. The engine, which reduces at stage
// 0, does not ask it.
void mute_autocast(DsConfig& c) {
  c.torch_autocast.mute_behind_gate();
  if (autocasts(c) && !replicated(c))
    c.top.mute("communication_data_type",
               "torch_autocast decides in which type each gradient is sent");
}

// The engine gives gradients the type of one key or of the other.
void mute_comm_types(DsConfig& c) {
  if (divides_samples(c))
    c.top.mute("communication_data_type",
               "seq_parallel_communication_data_type replaces it where ranks divide samples");
  else
    c.top.mute("seq_parallel_communication_data_type",
               "has an effect only with sequence_parallel_size above 1");
}

void mute_buckets(DsConfig& c) {
  const bool contiguous = c.zero.effective(in<&K::contiguous_gradients>) == true;
  if (uses_bf16_optimizer(c)) {
    c.zero.mute({in<&K::contiguous_gradients>, in<&K::reduce_scatter>, in<&K::reduce_bucket_size>,
                 in<&K::overlap_comm>, in<&K::use_multi_rank_bucket_allreduce>,
                 in<&K::round_robin_gradients>, in<&K::parameter_alignment>},
                "bf16 with fp32 accumulation at stage 1 reduces one flat buffer per group instead");
  } else if (flat(c) && !contiguous) {
    c.zero.mute({in<&K::reduce_scatter>, in<&K::use_multi_rank_bucket_allreduce>},
                "without contiguous_gradients every bucket is all-reduced");
  } else if (flat(c) && !c.zero.flag(in<&K::reduce_scatter>)) {
    c.zero.mute(in<&K::use_multi_rank_bucket_allreduce>,
                "without reduce_scatter every bucket is all-reduced");
  } else if (c.stage == 3 && !c.zero.flag(in<&K::contiguous_gradients>)) {
    c.zero.mute(in<&K::reduce_scatter>,
                "without contiguous_gradients every bucket is reduce-scattered");
  }
}

void mute_fetches(DsConfig& c) {
  if (c.stage != 3) return;
  if (c.zero.flag(in<&K::allgather_sequential>))
    c.zero.mute(in<&K::prefetch_bucket_size>, "allgather_sequential makes it 1");
  else if (c.zero.at(in<&K::prefetch_bucket_size>) == 0)
    c.zero.mute(in<&K::max_live_parameters>, "it only throttles the prefetch, which is off");
  if (c.zero.at(in<&K::param_persistence_threshold>) == 0)
    c.zero.mute(in<&K::model_persistence_threshold>, "no parameter is persistent");
  if (c.zero.at(in<&K::hpz_partition_size>) == 0)
    c.zero.mute(in<&K::hpz_partition_size>, "there is no secondary partition");
  if (c.zero.flag(in<&K::quantized_weights>))
    c.zero.mute(in<&K::use_all_reduce_for_fetch_params>,
                "quantized parameters are always gathered");
  if (c.zero.at(in<&K::leaves, &LeafModules::granularity>).get<std::int64_t>() <= 0)
    c.zero.mute(in<&K::leaves, &LeafModules::granularity>, "modules are gathered one by one");
}

// Only some of DeepSpeed's reductions use the keys about the scaling of gradients.
void mute_scaling(DsConfig& c) {
  const bool all_reduces_in_place = flat(c) &&
                                    c.zero.effective(in<&K::contiguous_gradients>) == true &&
                                    !c.zero.flag(in<&K::reduce_scatter>);
  const bool scales = replicated(c) || uses_bf16_optimizer(c) || all_reduces_in_place;
  const bool sums = c.top.at("gradient_allreduce_op") == "sum";
  if (!scales && c.stage != 3) {
    c.top.mute({in<&K::prescale_gradients>, in<&K::gradient_predivide_factor>},
               "at stages 1 and 2 only buckets all-reduced whole (contiguous_gradients, "
               "no reduce_scatter) are scaled by it");
  } else if (sums) {
    c.top.mute({in<&K::prescale_gradients>, in<&K::gradient_predivide_factor>},
               "gradients are summed, not averaged");
  } else if (c.stage == 3) {
    c.top.mute(in<&K::prescale_gradients>, "stage 3 divides before it sums in any case");
    if (c.top.flag(in<&K::prescale_gradients>))
      c.top.mute(in<&K::gradient_predivide_factor>, "prescale_gradients replaces it");
  } else if (c.top.flag(in<&K::prescale_gradients>)) {
    c.top.mute(in<&K::gradient_predivide_factor>, "prescale_gradients replaces it");
  }
}

// A scheduler with rates of its own overwrites the learning rate of the optimizer.
void mute_rate(DsConfig& c) {
  const Json type = c.scheduler.at("type");
  const bool own_rates = type == "WarmupLR" || type == "WarmupDecayLR";
  if (own_rates && !c.scheduler_params.at("warmup_max_lr").is_null())
    for (const Key& key : c.optimizer_params.section().keys)
      if (key.member.get == in<&OptimizerSpec::lr>.get || key.name.ends_with("_lr"))
        c.optimizer_params.mute(key.name, "the scheduler sets the rate");
}

void mute_logging(DsConfig& c) {
  if (!c.top.flag("wall_clock_breakdown"))
    c.top.mute("steps_per_print",
               "it affects only wall_clock_breakdown; a run reports its own progress by time");
  c.comms_logger.mute("debug", "it prints the calling Python functions, and ShardMark has none");
  c.comms_logger.mute_behind_gate();
  if (c.comms_logger.flag("prof_all"))
    c.comms_logger.mute("prof_ops", "prof_all selects every collective");
}

}  // namespace

void mute_without_effect(DsConfig& c) {
  mute_logging(c);
  mute_parts(c);
  mute_beside_offload(c);
  mute_precision(c);
  mute_autocast(c);
  mute_comm_types(c);
  mute_buckets(c);
  mute_fetches(c);
  mute_scaling(c);
  mute_rate(c);
}

ZeroKnobs zero_knobs(const DsConfig& c) {
  Deck deck;
  for (const DsValues* values : {&c.top, &c.zero, &c.bf16, &c.leaf_module}) values->fill(deck);
  ZeroKnobs k = deck.zero.knobs;
  const Json overlap = c.zero.effective(in<&K::overlap_comm>);
  if (overlap.is_null()) k.overlap_comm = c.stage == 3;
  if (k.allgather_sequential && c.stage == 3) k.prefetch_bucket_size = 1;
  k.hpz_partition_size = std::max<std::int64_t>(1, k.hpz_partition_size);
  k.sums_gradients = c.top.at("gradient_allreduce_op") == "sum";
  return k;
}

}  // namespace shardmark
