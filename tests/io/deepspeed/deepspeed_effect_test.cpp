// SPDX-License-Identifier: Apache-2.0
// Rule: every key that is accepted but has no effect in this config is listed with the reason, and
// no key with an effect is listed.
#include <fmt/format.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deepspeed_effect_test {
namespace {

std::map<std::string, std::string> without_effect(const std::string& text,
                                                  Schedule schedule = Schedule::deepspeed) {
  Origin origin("d.json");
  const std::string whole = fmt::format("{{\"train_batch_size\": 4, {}}}", text);
  (void)read_deepspeed(origin, parse_json(whole, "d.json", JsonRules::deck), schedule);
  std::map<std::string, std::string> result;
  for (const Finding& f : origin.findings())
    if (f.kind == FindingKind::no_effect) result[f.key.substr(f.key.find('.') + 1)] = f.text;
  return result;
}

struct Effect {
  const char* config;  // keys that are added to the config
  const char* key;     // all keys below `deepspeed` that have no effect, or "" for none
  const char* why;
};

TEST(DeepSpeedEffect, is_missing_for_the_reason_given_and_for_that_key_alone) {
  const Effect cases[] = {
      {R"("zero_optimization": {"stage": 0, "reduce_bucket_size": 9})",
       "zero_optimization.reduce_bucket_size", "this is stage 0"},
      {R"("zero_optimization": {"stage": 2, "stage3_max_live_parameters": 9})",
       "zero_optimization.stage3_max_live_parameters", "only at stage 3"},
      {R"("zero_optimization": {"stage": 2, "zero_quantized_weights": true})",
       "zero_optimization.zero_quantized_weights", "only at stage 3"},
      {R"("zero_optimization": {"stage": 2, "enable_sanity_checks": true})",
       "zero_optimization.enable_sanity_checks", "only at stage 3"},
      {R"("zero_optimization": {"stage": 2, "allgather_bucket_size": 8})",
       "zero_optimization.allgather_bucket_size", "never uses it"},
      {R"("zero_optimization": {"stage": 3, "round_robin_gradients": true})",
       "zero_optimization.round_robin_gradients", "stages 1 to 2"},
      {R"("zero_optimization": {"stage": 2, "contiguous_gradients": false, "reduce_scatter": true})",
       "zero_optimization.reduce_scatter", "without contiguous_gradients"},
      {R"("zero_optimization": {"stage": 1, "reduce_scatter": false,
                                "use_multi_rank_bucket_allreduce": false})",
       "zero_optimization.use_multi_rank_bucket_allreduce", "without reduce_scatter"},
      {R"("zero_optimization": {"stage": 3, "contiguous_gradients": false, "reduce_scatter": false})",
       "zero_optimization.reduce_scatter", "without contiguous_gradients"},
      {R"("zero_optimization": {"stage": 3, "prefetch_bucket_size": 0, "max_live_parameters": 9})",
       "zero_optimization.max_live_parameters", "prefetch"},
      {R"("zero_optimization": {"stage": 3, "zero_quantized_weights": true,
                                "stage3_use_all_reduce_for_fetch_params": true})",
       "zero_optimization.stage3_use_all_reduce_for_fetch_params", "quantized"},
      {R"("zero_optimization": {"stage": 3, "allgather_sequential": true,
                                "prefetch_bucket_size": 9})",
       "zero_optimization.prefetch_bucket_size", "allgather_sequential"},
      {R"("fp16": {"loss_scale_window": 5})", "fp16.loss_scale_window", "not enabled"},
      {R"("fp16": {"enabled": true, "loss_scale": 8, "loss_scale_window": 5})",
       "fp16.loss_scale_window", "static"},
      {R"("fp16": {"enabled": true, "hysteresis": 5})", "fp16.hysteresis", "stage 0"},
      {R"("bf16": {"check_grad_overflow": false}, "zero_optimization": {"stage": 2})",
       "bf16.check_grad_overflow", "not enabled"},
      {R"("bf16": {"enabled": true, "check_grad_overflow": false},
          "zero_optimization": {"stage": 3})",
       "bf16.check_grad_overflow", "stages 1 to 2"},
      {R"("bf16": {"enabled": true, "immediate_grad_update": true},
          "zero_optimization": {"stage": 2})",
       "bf16.immediate_grad_update", "stage 1 with fp32"},
      {R"("bf16": {"enabled": true, "immediate_grad_update": true},
          "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}})",
       "bf16.immediate_grad_update", "without offload_optimizer"},
      {R"("compile": {"deepcompile": false, "passes": ["z3"]})", "compile.passes",
       "deepcompile is not enabled"},
      {R"("tensor_parallel": {"autotp_size": 1, "preset_model": "llama"})",
       "tensor_parallel.preset_model", "does not divide"},
      {R"("tensor_parallel": {"tp": {"tp_size": 2}})", "tensor_parallel.tp.tp_size",
       "only autotp_size"},
      {R"("hybrid_engine": {"enabled": false, "inference_tp_size": 2})",
       "hybrid_engine.inference_tp_size", "not enabled"},
      {R"("expert_parallel": {"autoep_size": 2})", "expert_parallel.autoep_size", "not enabled"},
      {R"("use_data_before_expert_parallelism": true)", "use_data_before_expert_parallelism",
       "expert_parallel.enabled"},
      {R"("torch_autocast": {"enabled": false, "dtype": "bf16"})", "torch_autocast.dtype",
       "not enabled"},
      {R"("torch_autocast": {"enabled": true, "dtype": "bf16",
                             "lower_precision_safe_modules": ["a.B"]})",
       "torch_autocast.lower_precision_safe_modules", "stages 1 to 3"},
      {R"("torch_autocast": {"enabled": true, "dtype": "bf16"}, "communication_data_type": "bf16",
          "zero_optimization": {"stage": 3})",
       "communication_data_type", "torch_autocast"},
      {R"("torch_autocast": {"enabled": true, "dtype": "bf16"}, "communication_data_type": "bf16")",
       "", ""},
      {R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 1, "reduce_bucket_size": 9})",
       "zero_optimization.reduce_bucket_size", "one flat buffer"},
      {R"("zero_optimization": {"stage": 1}, "prescale_gradients": true)", "prescale_gradients",
       "all-reduced whole"},
      {R"("gradient_allreduce_op": "sum", "gradient_predivide_factor": 2)",
       "gradient_predivide_factor", "summed"},
      {R"("prescale_gradients": true, "gradient_predivide_factor": 2)", "gradient_predivide_factor",
       "replaces it"},
      {R"("optimizer": {"type": "AdamW", "params": {"lr": 1}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 2}})",
       "optimizer.params.lr", "scheduler"},
      {R"("optimizer": {"type": "Muon", "params": {"adam_lr": 1}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 2}})",
       "optimizer.params.adam_lr", "scheduler"},
      {R"("scheduler": {"params": {"warmup_max_lr": 2}})", "scheduler.params", "has no type"},
      {R"("data_types": {"buffer_dtype": "fp32"})", "data_types.buffer_dtype",
       "does not change anything"},
      {R"("memory_breakdown": true)", "memory_breakdown", "does not change anything"},
      {R"("steps_per_print": 5)", "steps_per_print", "only wall_clock_breakdown"},
      {R"("comms_logger": {"prof_ops": ["all_reduce"]})", "comms_logger.prof_ops", "not enabled"},
      {R"("comms_logger": {"enabled": true, "prof_ops": ["all_reduce"]})", "comms_logger.prof_ops",
       "every collective"},
      {R"("comms_logger": {"verbose": true})", "comms_logger.verbose", "not enabled"},
      {R"("comms_logger": {"enabled": true, "debug": true})", "comms_logger.debug", "Python"},
      {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none",
                                "pin_memory": false}})",
       "zero_optimization.offload_optimizer.pin_memory", "not offloaded"},
      {R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
                                "fast_init": true}})",
       "zero_optimization.offload_optimizer.fast_init", "does not change anything"},
      {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
                                "pin_memory": false}})",
       "zero_optimization.offload_param.pin_memory", "in any case"},
      {R"("zero_optimization": {"stage": 2, "contiguous_gradients": false,
                                "offload_optimizer": {"device": "cpu"}})",
       "zero_optimization.contiguous_gradients", "offload_optimizer makes it true"},
      {R"("optimizer": {"type": "Muon"},
          "zero_optimization": {"stage": 3, "reduce_scatter": false,
                                "save_muon_momentum_buffer_in_memory": true,
                                "offload_optimizer": {"device": "cpu"}})",
       "zero_optimization.save_muon_momentum_buffer_in_memory", "no states in files"},
      // all of these keys have an effect
      {R"("bf16": {"enabled": true, "immediate_grad_update": true},
          "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1})",
       "", ""},
      {R"("optimizer": {"type": "Muon"},
          "zero_optimization": {"stage": 3, "reduce_scatter": false,
                                "save_muon_momentum_buffer_in_memory": true,
                                "offload_optimizer": {"device": "nvme", "nvme_path": "x"}})",
       "", ""},
      {R"("wall_clock_breakdown": true, "steps_per_print": 5)", "", ""},
      {R"("comms_logger": {"enabled": true, "prof_all": false, "prof_ops": ["all_reduce"]})", "",
       ""},
      {R"("comms_logger": {"enabled": true, "verbose": true})", "", ""},
      {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                                "offload_optimizer": {"device": "cpu", "pin_memory": false,
                                                      "ratio": 0.5}})",
       "", ""},
      {R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 1, "reduce_bucket_size": 9,
                                "offload_optimizer": {"device": "cpu"}})",
       "", ""},
      {R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}})",
       "", ""},
      {R"("zero_optimization": {"stage": 2, "reduce_bucket_size": 9, "overlap_comm": true,
                                "reduce_scatter": false, "round_robin_gradients": true})",
       "", ""},
      {R"("zero_optimization": {"stage": 3, "sub_group_size": 9, "max_reuse_distance": 9,
                                "reduce_scatter": false, "allgather_sequential": true})",
       "", ""},
      {R"("bf16": {"enabled": true, "check_grad_overflow": false},
          "zero_optimization": {"stage": 2}, "communication_data_type": "fp32")",
       "", ""},
      {R"("fp16": {"enabled": true, "hysteresis": 5, "loss_scale": 0},
          "zero_optimization": {"stage": 1})",
       "", ""},
      {R"("optimizer": {"type": "AdamW", "params": {"lr": 1}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}})",
       "", ""},
  };
  for (const Effect& c : cases) {
    SCOPED_TRACE(c.config);
    const auto found = without_effect(c.config);
    EXPECT_EQ(found.size(), *c.key ? 1u : 0u);
    for (const auto& [key, why] : found) {
      EXPECT_EQ(key, c.key);
      expect_says(why, {c.why});
    }
  }
}

TEST(DeepSpeedEffect, knobs_of_deepspeeds_schedule_do_nothing_under_paper) {
  const auto found = without_effect(
      R"("zero_optimization": {"stage": 3, "reduce_bucket_size": 9, "overlap_comm": true})",
      Schedule::paper);
  EXPECT_EQ(found.size(), 2u);
  for (const auto& [key, why] : found) expect_says(why, {"paper"});
}

}  // namespace
}  // namespace shardmark::test::deepspeed_effect_test
