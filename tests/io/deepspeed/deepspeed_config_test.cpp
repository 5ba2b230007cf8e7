// SPDX-License-Identifier: Apache-2.0
// DeepSpeed configs: a config that DeepSpeed was observed to refuse is refused; one that it was
// observed to accept is either accepted with the same values or refused by a message that names
// what is not modelled yet.
#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deepspeed_config_test {
namespace {

Json config_of(const Json& c) {
  if (c.contains("config")) return c["config"];
  return parse_json(c["config_text"].get<std::string>(), "case", JsonRules::deepspeed);
}

// Returns whether a recorded config asks for something that is not modelled.
bool not_modelled(const Json& config) {
  const std::string text = config.dump();
  return text.find("nvme") != std::string::npos || text.find("SGD") != std::string::npos ||
         text.find("hpz") != std::string::npos;
}

void expect_same_values(const ZeroSpec& zero, const Batch& batch, const Json& seen) {
  EXPECT_EQ(zero.stage, seen["zero_stage"]);
  EXPECT_EQ(batch.global, seen["train_batch_size"]);
  EXPECT_EQ(batch.micro, seen["micro_batch"]);
  EXPECT_EQ(batch.accumulation, seen["gradient_accumulation_steps"]);
  EXPECT_EQ(zero.knobs.reduce_bucket_size, seen["reduce_bucket_size"]);
  EXPECT_EQ(zero.knobs.overlap_comm, seen["overlap_comm"]);
}

TEST(DeepSpeedConfig, judges_recorded_configs_as_deepspeed_did) {
  const Json cases = read_json_file(
      std::string(SHARDMARK_TESTS) + "/data/deepspeed_config_cases.json", JsonRules::deck)["cases"];
  ASSERT_GE(cases.size(), 71u);
  int later = 0;
  for (const Json& c : cases) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const bool deepspeed_takes_it = c["outcome"] == "accepted";
    try {
      Origin origin("d.json");
      const ZeroSpec zero = read_deepspeed(origin, config_of(c), Schedule::deepspeed);
      const Batch batch = infer_batch(zero, 1, "d.json");
      EXPECT_TRUE(deepspeed_takes_it);
      if (c.contains("effective")) expect_same_values(zero, batch, c["effective"]);
    } catch (const DeckError& error) {
      const std::string message = error.what();
      if (!deepspeed_takes_it) {
        if (c.contains("field")) expect_says(message, {c["field"].get<std::string>()});
        continue;
      }
      ++later;
      expect_says(message, {"not modelled yet"});
      EXPECT_TRUE(not_modelled(c["config"])) << message;
    }
  }
  EXPECT_LE(later, 12);
}

TEST(DeepSpeedConfig, under_paper_what_changes_values_is_refused_by_name) {
  for (const char* extra :
       {R"("communication_data_type": "bf16")", R"("prescale_gradients": true)",
        R"("gradient_predivide_factor": 2)", R"("gradient_allreduce_op": "sum")"}) {
    const std::string text = extra, key = text.substr(1, text.find('"', 1) - 1);
    const Json config = Json::parse("{\"train_batch_size\": 4, " + text + "}");
    Origin origin("d.json");
    EXPECT_NO_THROW(read_deepspeed(origin, config, Schedule::deepspeed)) << text;
    expect_says(message_of<DeckError>([&] { read_deepspeed(origin, config, Schedule::paper); }),
                {key, "not modelled yet", "run.schedule"});
  }
  Origin origin("d.json");
  EXPECT_NO_THROW(read_deepspeed(
      origin, Json::parse(R"({"train_batch_size": 4, "communication_data_type": "fp32",
                              "data_types": {"grad_accum_dtype": "float32"}})"),
      Schedule::paper));
  const ZeroSpec half = read_deepspeed(
      origin, Json::parse(R"({"train_batch_size": 4, "zero_optimization": {"stage": 2},
                              "bf16": {"enabled": true}, "communication_data_type": "bf16",
                              "data_types": {"grad_accum_dtype": "fp32"}})"),
      Schedule::paper);
  EXPECT_EQ(half.precision.model, Dtype::bf16);
  EXPECT_EQ(half.precision.grad_accum, Dtype::fp32);
}

ZeroSpec read_offload(const std::string& zero, Schedule schedule = Schedule::deepspeed) {
  Origin origin("d.json");
  const std::string text =
      "{\"train_batch_size\": 4, \"bf16\": {\"enabled\": true}, "
      "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
      "\"zero_optimization\": " +
      zero + "}";
  return read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deepspeed), schedule);
}

TEST(DeepSpeedConfig, offload_is_what_deepspeed_takes_for_it) {
  const ZeroSpec two = read_offload(R"({"stage": 2, "offload_optimizer": {"device": "cpu"}})");
  EXPECT_TRUE(two.offload_optimizer.enabled);
  EXPECT_TRUE(two.offload_optimizer.pin_memory);
  EXPECT_FALSE(two.offload_param.enabled);
  EXPECT_EQ(two.precision.grad_accum, Dtype::fp32);
  const ZeroSpec one =
      read_offload(R"({"stage": 1, "offload_optimizer": {"device": "nvme", "pin_memory": false}})");
  EXPECT_TRUE(one.offload_optimizer.enabled) << "below stage 3 nvme is the host's memory";
  EXPECT_FALSE(one.offload_optimizer.pin_memory);
  EXPECT_EQ(one.precision.grad_accum, Dtype::fp32);
  EXPECT_TRUE(one.precision.check_overflow) << "not the class that never looks";
  const ZeroSpec three = read_offload(
      R"({"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.25},
          "offload_param": {"device": "cpu"}})");
  EXPECT_EQ(three.offload_optimizer.ratio, 0.25);
  EXPECT_THROW(read_offload(R"({"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.25}},
          "optimizer": {"type": "AdamW", "params": {"torch_adam": true}})"),
               DeckError)
      << "DeepSpeed splits only its own Adam";
  EXPECT_TRUE(three.offload_param.enabled);
  EXPECT_TRUE(read_offload(R"({"stage": 2, "cpu_offload": true})").offload_optimizer.enabled);
  EXPECT_TRUE(read_offload(R"({"stage": 3, "cpu_offload_param": true})").offload_param.enabled);
  EXPECT_FALSE(
      read_offload(R"({"stage": 2, "offload_param": {"device": "cpu"}})").offload_param.enabled);
  EXPECT_FALSE(read_offload(R"({"stage": 2, "offload_optimizer": {"pin_memory": false}})")
                   .offload_optimizer.enabled);
}

TEST(DeepSpeedConfig, under_paper_offload_is_refused_by_name) {
  for (const char* zero : {R"({"stage": 2, "offload_optimizer": {"device": "cpu"}})",
                           R"({"stage": 3, "offload_param": {"device": "cpu"}})",
                           R"({"stage": 3, "cpu_offload": true})"})
    expect_says(message_of<DeckError>([&] { read_offload(zero, Schedule::paper); }),
                {"offload", "not modelled yet", "run.schedule"});
  EXPECT_NO_THROW(
      read_offload(R"({"stage": 2, "offload_optimizer": {"device": "none"}})", Schedule::paper));
}

ZeroSpec read(const std::string& zero, std::string_view extra = "") {
  Origin origin("d.json");
  const std::string text =
      "{\"train_batch_size\": 4, \"zero_optimization\": " + zero + std::string(extra) + "}";
  return read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deepspeed), Schedule::paper);
}

TEST(DeepSpeedConfig, stage_is_coerced_as_deepspeed_does) {
  EXPECT_EQ(read("{\"stage\": \"2\"}").stage, 2);
  EXPECT_EQ(read("{\"stage\": 2.0}").stage, 2);
  EXPECT_EQ(read("{\"stage\": \"auto\"}").stage, 0);
  EXPECT_EQ(read("{}").stage, 0);
  EXPECT_EQ(read("true").stage, 1);
  EXPECT_EQ(read("false").stage, 0);
  for (const char* bad : {"4", "-1", "2.5", "\"x\"", "null", "[]"})
    expect_says(message_of<DeckError>([&] { read("{\"stage\": " + std::string(bad) + "}"); }),
                {"d.json", "zero_optimization.stage", bad, "must be 0, 1, 2 or 3"});
}

// Recorded with 0.19.8: "gradient_clipping": true clips at a norm of 1.
TEST(DeepSpeedConfig, a_boolean_is_the_number_that_python_computes_with) {
  EXPECT_EQ(read("{}", ", \"gradient_clipping\": true").gradient_clipping, 1);
  EXPECT_EQ(read("{}", ", \"gradient_clipping\": false").gradient_clipping, 0);
  EXPECT_EQ(read("{}", ", \"gradient_predivide_factor\": true").knobs.gradient_predivide_factor, 1);
  expect_says(message_of<DeckError>([&] { read("{}", ", \"gradient_clipping\": \"1\""); }),
              {"gradient_clipping", "must be a number"});
  expect_says(message_of<DeckError>(
                  [&] { read("{}", ", \"fp16\": {\"enabled\": true, \"loss_scale\": true}"); }),
              {"fp16.loss_scale", "true"});
}

TEST(DeepSpeedConfig, a_key_and_its_alias_together_are_refused) {
  int aliases = 0;
  for (const Key& key : ds_section("zero_optimization").keys) {
    if (key.alias.empty()) continue;
    ++aliases;
    const std::string value = key.default_value().dump(), name(key.name), alias(key.alias);
    EXPECT_NO_THROW(read("{\"" + name + "\": " + value + "}"));
    EXPECT_NO_THROW(read("{\"" + alias + "\": " + value + "}"));
    expect_says(message_of<DeckError>([&] {
                  read("{\"" + name + "\": " + value + ", \"" + alias + "\": " + value + "}");
                }),
                {name, alias, "same key", "remove"});
  }
  EXPECT_EQ(aliases, 9);
}

TEST(DeepSpeedConfig, adamw_defaults_stand_in_for_what_is_not_named) {
  const ZeroSpec none = read("{}");
  const ZeroSpec part = read("{}", R"(, "optimizer": {"type": "AdamW", "params": {"lr": 0.5}})");
  const ZeroSpec unnamed = read("{}", R"(, "optimizer": {"params": {"lr": 0.5}})");
  EXPECT_EQ(none.optimizer.lr, 1e-3);
  EXPECT_EQ(part.optimizer.lr, 0.5);
  EXPECT_EQ(part.optimizer.beta2, 0.999);
  EXPECT_EQ(unnamed.optimizer.lr, 1e-3) << "DeepSpeed makes an optimizer only if its type is named";
}

}  // namespace
}  // namespace shardmark::test::deepspeed_config_test
