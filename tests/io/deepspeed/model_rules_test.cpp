// SPDX-License-Identifier: Apache-2.0
// Keys that divide nothing of a model have no effect: a threshold below the granularity of all of
// its modules, and a ratio of a single sub-group.
#include <fmt/format.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::model_rules_test {
namespace {

// TinyLlama's sizes: the projections of attention have the smallest granularity, (2 x 2048 x 2048 +
// 2 x 2048 x 256) / 5.
ModelSpec tiny_llama() {
  ModelSpec m;
  m.family = Family::llama;
  m.layers = 22;
  m.hidden = 2048;
  m.heads = 32;
  m.kv_heads = 4;
  m.ffn = 5632;
  m.sequence = 2048;
  m.vocab = 32000;
  return m;
}

// Returns why a key has no effect, or nothing.
std::string without_effect(const ModelSpec& model, std::optional<int> world, const std::string& key,
                           const std::string& zero) {
  Origin origin("d.json");
  const std::string text =
      fmt::format(R"({{"train_batch_size": 64, "zero_optimization": {{"stage": 3, {}}}}})", zero);
  (void)read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deck), Schedule::deepspeed,
                       {&model, world});
  for (const Finding& f : origin.findings())
    if (f.key.ends_with(key) &&
        (f.kind == FindingKind::no_effect || f.kind == FindingKind::warning))
      return f.text;
  return {};
}

TEST(ModelRules, a_threshold_below_all_modules_marks_none) {
  const ModelSpec model = tiny_llama();
  const std::string key = "stage3_module_granularity_threshold";
  const auto set = [&](std::int64_t n) { return fmt::format(R"("{}": {})", key, n); };
  for (const std::int64_t n : {16, 1'887'435})
    expect_says(without_effect(model, {}, key, set(n)), {"1887436", "no module"});
  EXPECT_EQ(without_effect(model, {}, key, set(1'887'436)), "");
  EXPECT_FALSE(without_effect(model, {}, key, set(0)).empty()) << "off";
}

TEST(ModelRules, containers_of_torch_have_no_granularity_of_their_own) {
  ModelSpec model;
  model.family = Family::list;
  model.modules = {{"h", {}}, {"h.a", {100}}, {"h.b", {300}}, {"head", {2000}}};
  const std::string key = "stage3_module_granularity_threshold";
  const auto set = [&](std::int64_t n) { return fmt::format(R"("{}": {})", key, n); };
  EXPECT_EQ(without_effect(model, {}, key, set(133)), "") << "400 / 3 in h";
  EXPECT_FALSE(without_effect(model, {}, key, set(132)).empty());
  model.modules[0].python_class = "torch.nn.ModuleList";
  EXPECT_FALSE(without_effect(model, {}, key, set(599)).empty()) << "2400 / 4 in the root";
  EXPECT_EQ(without_effect(model, {}, key, set(600)), "");
}

TEST(ModelRules, a_ratio_of_one_sub_group_offloads_everything) {
  const ModelSpec model = tiny_llama();
  const auto set = [](const char* size) {
    return fmt::format(R"("sub_group_size": {}, "offload_optimizer": {{"device": "cpu",
                          "ratio": 0.3}})",
                       size);
  };
  const std::string key = "offload_optimizer.ratio";
  expect_says(without_effect(model, 8, key, set("1000000000")),
              {"0.3", "1 sub-group", "all states"});
  EXPECT_EQ(without_effect(model, 8, key, set("10000000")), "") << "many sub-groups";
  EXPECT_EQ(without_effect(model, 1, key, set("600000000")), "") << "one rank alone has two";
  expect_says(without_effect(model, {}, key, set("600000000")), {"on 2 or more ranks"});
  EXPECT_NE(without_effect(model, 4, key, set("600000000")), "") << "four ranks have one each";
  expect_says(without_effect(model, {}, key, set("2000000000")), {"any number of ranks"});
}

}  // namespace
}  // namespace shardmark::test::model_rules_test
