// SPDX-License-Identifier: Apache-2.0
// A completed DeepSpeed config means the same as the config that it completes, has DeepSpeed's own
// types, and leaves nothing to be inferred, converted or ignored. Tried with every recorded config
// that DeepSpeed accepted.
#include <algorithm>

#include <fmt/core.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::complete_config_test {
namespace {

struct Read {
  ZeroSpec zero;
  bool ignores = false;  // DeepSpeed ignores a key of the config
};

Read read(const Json& config) {
  Origin origin("d.json");
  Read r{.zero = read_deepspeed(origin, config, Schedule::deepspeed)};
  const auto& findings = origin.findings();
  r.ignores = std::any_of(findings.begin(), findings.end(),
                          [](const Finding& f) { return f.kind == FindingKind::ignored; });
  return r;
}

std::string text_of(const OffloadSpec& o) {
  return fmt::format("{} {} {} {} {} {} {} {}", o.enabled, o.pin_memory, o.ratio, o.nvme,
                     o.nvme_path, o.buffer_count, o.buffer_size, o.max_in_cpu);
}

// What a plan depends on.
std::string text_of(const ZeroSpec& z) {
  const ZeroKnobs& k = z.knobs;
  const OptimizerSpec& o = z.optimizer;
  return fmt::format(
      "{} {} | {} {} {} {} {} {} {} | {} {} {} {} {} {} {} {} {} | {} {} {} {} {} | {} {} {} {} | "
      "{} | {}",
      z.stage, z.gradient_clipping, traits(o.type).name, o.lr, o.beta1, o.beta2, o.eps,
      o.weight_decay, o.momentum, k.contiguous_gradients, k.reduce_scatter, k.overlap_comm,
      k.reduce_bucket_size, k.sub_group_size, k.prefetch_bucket_size, k.param_persistence_threshold,
      k.max_live_parameters, k.max_reuse_distance, k.hpz_partition_size, k.quantized_weights,
      k.prescale_gradients, k.gradient_predivide_factor, k.round_robin_gradients,
      static_cast<int>(z.precision.model), static_cast<int>(z.precision.grad_accum),
      static_cast<int>(z.precision.comm), z.precision.check_overflow, text_of(z.offload_optimizer),
      text_of(z.offload_param));
}

bool has_auto_or_null(const Json& value) {
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), has_auto_or_null);
  return value.is_null() || value == "auto";
}

void expect_complete(const Json& config, int ranks) {
  const ZeroSpec zero = read(config).zero;
  const Batch batch = infer_batch(zero, ranks, "d.json");
  const Json complete = complete_deepspeed(config, zero, batch);
  const Read again = read(complete);
  EXPECT_EQ(text_of(again.zero), text_of(zero)) << complete.dump(2);
  EXPECT_FALSE(again.ignores) << complete.dump(2);
  EXPECT_FALSE(has_auto_or_null(complete)) << complete.dump(2);
  EXPECT_EQ(infer_batch(again.zero, ranks, "d.json").micro, batch.micro);
  EXPECT_EQ(again.zero.train_batch_size.value_or(0), batch.global);
  EXPECT_EQ(again.zero.accumulation_steps.value_or(0), batch.accumulation);
  EXPECT_TRUE(complete.at("optimizer").contains("type"));
  EXPECT_EQ(Json(complete_deepspeed(complete, again.zero, batch)), complete);
}

TEST(CompleteConfig, means_what_the_config_means) {
  const Json cases = read_json_file(
      std::string(SHARDMARK_TESTS) + "/data/deepspeed_config_cases.json", JsonRules::deck)["cases"];
  int tried = 0;
  for (const Json& c : cases) {
    if (c["outcome"] != "accepted") continue;
    SCOPED_TRACE(c["name"].get<std::string>());
    const Json config = c.contains("config") ? c["config"]
                                             : parse_json(c["config_text"].get<std::string>(),
                                                          "case", JsonRules::deepspeed);
    try {
      read(config);
    } catch (const DeckError&) {
      continue;  // not modelled
    }
    ++tried;
    expect_complete(config, 1);
  }
  EXPECT_GE(tried, 30);
}

TEST(CompleteConfig, has_deepspeeds_types) {
  const Json config = parse_json(
      R"({"train_batch_size": 16.0, "my_key": 1, "bf16": {"enabled": "true"}, "gradient_clipping": "auto",
          "zero_optimization": {"stage": "3", "reduce_bucket_size": 5e7, "cpu_offload": true,
              "stage3_prefetch_bucket_size": "100", "overlap_comm": null, "cpu_offload_param": false,
              "offload_param": {"device": "cpu", "buffer_size": 1e8}, "contiguous_gradients": 1}})",
      "d.json", JsonRules::deepspeed);
  Json taken = config;
  taken.erase("gradient_clipping");
  taken["zero_optimization"].erase("cpu_offload_param");
  expect_complete(taken, 4);
  const ZeroSpec zero = read(taken).zero;
  const nlohmann::ordered_json complete =
      complete_deepspeed(config, zero, infer_batch(zero, 4, "d.json"));
  const nlohmann::ordered_json& z = complete["zero_optimization"];
  for (const char* key : {"stage", "reduce_bucket_size", "stage3_prefetch_bucket_size"})
    EXPECT_TRUE(z.at(key).is_number_integer()) << z;
  EXPECT_TRUE(z.at("offload_param").at("buffer_size").is_number_integer()) << z;
  EXPECT_EQ(z.at("contiguous_gradients"), true);
  EXPECT_EQ(complete.at("bf16").at("enabled"), true);
  EXPECT_EQ(z.at("offload_optimizer").at("device"), "cpu");
  for (const char* key : {"cpu_offload", "cpu_offload_param", "overlap_comm"})
    EXPECT_FALSE(z.contains(key)) << z;
  for (const char* key : {"my_key", "gradient_clipping"})
    EXPECT_FALSE(complete.contains(key)) << complete;
  EXPECT_EQ(complete.items().begin().key(), "train_batch_size");
}

}  // namespace
}  // namespace shardmark::test::complete_config_test
