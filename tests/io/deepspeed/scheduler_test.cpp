// SPDX-License-Identifier: Apache-2.0
// Rule: what a DeepSpeed config says about the scheduler is read as DeepSpeed would use
// it, and what its engine refuses is refused.
#include <tests/io/deepspeed/spec.hpp>

namespace shardmark::test::scheduler_test {
namespace {

using namespace spec;

ZeroSpec scheduled(const char* type, const char* params) {
  return read(1, fmt::format(R"("optimizer": {{"type": "AdamW", "params": {{"lr": 0.5}}}},
                                "scheduler": {{"type": "{}", "params": {{{}}}}})",
                             type, params));
}

TEST(DeepSpeedScheduler, parameters_and_defaults_are_each_schedulers_own) {
  EXPECT_EQ(read(1, "").scheduler.type, LrSchedule::constant);
  EXPECT_EQ(read(1, R"("scheduler": {})").scheduler.type, LrSchedule::constant);
  const SchedulerSpec plain = scheduled("WarmupLR", "").scheduler;
  EXPECT_EQ(plain.type, LrSchedule::warmup);
  EXPECT_EQ(plain.warmup_min_lr, 0);
  EXPECT_EQ(plain.warmup_max_lr, 0.5) << "the optimizer's";
  EXPECT_EQ(plain.warmup_num_steps, 1000);
  EXPECT_FALSE(plain.linear);
  EXPECT_EQ(scheduled("WarmupLR", R"("warmup_max_lr": [0.25])").scheduler.warmup_max_lr, 0.25);
  const SchedulerSpec decay =
      scheduled("WarmupDecayLR", R"("total_num_steps": 50, "warmup_type": "linear")").scheduler;
  EXPECT_EQ(decay.type, LrSchedule::warmup_decay);
  EXPECT_EQ(decay.warmup_max_lr, 1e-3) << "not the optimizer's";
  EXPECT_EQ(decay.total_num_steps, 50);
  EXPECT_TRUE(decay.linear);
  const SchedulerSpec cosine =
      scheduled("WarmupCosineLR",
                R"("total_num_steps": 50, "warmup_min_ratio": 0.5, "cos_min_ratio": 0.25,
                   "warmup_num_steps": 3)")
          .scheduler;
  EXPECT_EQ(cosine.type, LrSchedule::warmup_cosine);
  EXPECT_EQ(cosine.warmup_min_ratio, 0.5);
  EXPECT_EQ(cosine.cos_min_ratio, 0.25);
  EXPECT_EQ(cosine.warmup_num_steps, 3);
}

// Matrices and the rest are two parameter groups, for which a list has a rate each.
TEST(DeepSpeedScheduler, muon_has_rates_for_both_of_its_groups) {
  const auto rates = [](const char* type, const char* params) {
    const SchedulerSpec s = read(1, fmt::format(R"("optimizer": {{"type": "Muon"}},
                               "scheduler": {{"type": "{}", "params": {{{}}}}})",
                                                type, params))
                                .scheduler;
    return std::vector{s.warmup_min_lr, s.adam_min_lr, s.warmup_max_lr, s.adam_max_lr};
  };
  using Rates = std::vector<double>;
  EXPECT_EQ(rates("WarmupLR", ""), (Rates{0, 0, 0.02, 3e-4})) << "the optimizer's";
  EXPECT_EQ(rates("WarmupLR", R"("warmup_min_lr": 0.25, "warmup_max_lr": [1, 2])"),
            (Rates{0.25, 0.25, 1, 2}));
  EXPECT_EQ(rates("WarmupDecayLR", R"("total_num_steps": 9)"), (Rates{0, 0, 1e-3, 1e-3}));
  for (const char* list : {"[0.25]", "[1, 2, 3]"}) {
    const std::string params = fmt::format(R"("warmup_max_lr": {})", list);
    expect_says(message_of<DeckError>([&] { rates("WarmupLR", params.c_str()); }),
                {"warmup_max_lr", "not modelled yet", "a list of two"});
  }
  expect_says(message_of<DeckError>([&] { rates("WarmupLR", R"("warmup_max_lr": [1, "auto"])"); }),
              {"warmup_max_lr", "must be a number"});
}

TEST(DeepSpeedScheduler, what_its_constructor_refuses_is_refused) {
  const struct {
    const char *type, *params, *says;
  } cases[] = {
      {"WarmupLR", R"("warmup_steps": 5)", "unknown key"},
      {"WarmupLR", R"("total_num_steps": 5)", "unknown key"},
      {"WarmupLR", R"("warmup_num_steps": 0)", "at least 1"},
      {"WarmupLR", R"("warmup_num_steps": 10.0)", "without a fraction"},
      {"WarmupLR", R"("warmup_num_steps": "auto")", "must be an integer"},
      {"WarmupLR", R"("warmup_max_lr": "auto")", "must be a number"},
      {"WarmupLR", R"("warmup_min_lr": null)", "must be a number"},
      {"WarmupLR", R"("warmup_max_lr": [0.1, 0.2])", "not modelled yet"},
      {"WarmupLR", R"("last_batch_iteration": 5)", "not modelled yet"},
      {"WarmupDecayLR", "", "total_num_steps: missing"},
      {"WarmupDecayLR", R"("total_num_steps": "auto")", "number of steps"},
      {"WarmupCosineLR", R"("total_num_steps": 5, "warmup_min_lr": 0)", "unknown key"},
      {"WarmupCosineLR", "", "total_num_steps: missing"},
      {"LRRangeTest", "", "not modelled yet"},
      {"StepLR", "", "not modelled yet"},
      {"warmuplr", "", "knows no scheduler"},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { scheduled(c.type, c.params); }), {c.says});
  expect_says(refusal(1, R"("scheduler": {"type": "WarmupLR"})"), {"scheduler.params: missing"});
}

}  // namespace
}  // namespace shardmark::test::scheduler_test
