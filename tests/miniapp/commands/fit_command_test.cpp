// SPDX-License-Identifier: Apache-2.0
// model.fit for users: `plan` and `run` choose the same number of layers and print it.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <core/memory/budget.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::fit_command_test {
namespace {

std::string fit_deck(const Workplace& place, const std::string& memory) {
  return place.write("fit.json", R"({
    "model": {"family": "gpt2", "fit": 0.5, "hidden": 32, "heads": 2, "sequence": 16, "vocab": 64},
    "data": {"source": "markov"},
    "deepspeed": {"train_micro_batch_size_per_gpu": 1,
                  "zero_optimization": {"stage": 2, "reduce_bucket_size": 1e4}},
    "run": {"steps": 2, "memory_mode": "strict"}, "memory": )" +
                                     memory + "}");
}

TEST(Fit, PlanAndRunChooseAlike) {
  const Workplace place;
  const std::string deck = fit_deck(place, R"({"device_gib": 0.05})");
  const Outcome plan = run({.args = {"plan", deck, "--ranks", "2", "--format", "json"}});
  ASSERT_EQ(plan.status, 0) << plan.err;
  const Json planned = Json::parse(plan.out).at("fit");
  EXPECT_GT(planned.at("layers"), 0);
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  EXPECT_EQ(place.report().at("fit"), planned);
  const std::string said = planned.at("layers").dump() + " layer";
  EXPECT_NE(ran.out.find("model.fit  " + said), std::string::npos) << ran.out;
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"plan", deck, "--ranks", "2"},
        {"deck", "check", deck, "--ranks", "2"}}) {
    const Outcome text = run({.args = args});
    EXPECT_NE(text.out.find("model.fit " + said), std::string::npos) << text.out << text.err;
  }
}

// Tokens of a larger model cost more, so the figure of merit of a deck whose model follows memory
// can be compared only together with the parameters.
TEST(Fit, PrintsAFigureThatComparesModelsOfAnySize) {
  const Workplace place;
  const std::string deck = fit_deck(place, R"({"device_gib": 0.05})");
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  const Json report = place.report();
  const double merit = report.at("parameter_tokens_per_s");
  EXPECT_DOUBLE_EQ(
      merit, report.at("fom").at("value").get<double>() * report.at("parameters").get<double>());
  const std::vector<std::string> lines = lines_of(ran.out);
  ASSERT_GE(lines.size(), 4U);
  EXPECT_TRUE(lines[lines.size() - 4].starts_with("FOM parameter_tokens_per_s=")) << ran.out;
  EXPECT_TRUE(lines[lines.size() - 3].starts_with("FOM tokens_per_s=")) << ran.out;
  EXPECT_TRUE(lines[lines.size() - 2].starts_with("CLASS=")) << ran.out;
  EXPECT_TRUE(lines.back().starts_with("RESULT=")) << ran.out;
  EXPECT_NEAR(std::stod(lines[lines.size() - 4].substr(27)), merit, 1e-5 * merit);
}

TEST(Fit, FillsWhatIsFoundFreeWhereTheDeckGivesNoBudget) {
  const Workplace place;
  const std::string deck = fit_deck(place, "{}");
  // Some 50 MB, however much is free.
  const double part = 5e7 / static_cast<double>(find_memory(1).bytes);
  const Outcome ran = run(
      {.args = {"run", deck, "--out", place.out(), "--set", fmt::format("model.fit={}", part)}});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  const Json report = place.report();
  const Json& memory = report.at("memory");
  EXPECT_GT(report.at("fit").at("layers"), 0);
  EXPECT_EQ(memory.at("device").at("predicted_peak").get<std::int64_t>() +
                memory.at("host").at("predicted_peak").get<std::int64_t>(),
            report.at("fit").at("bytes").get<std::int64_t>());
}

TEST(Fit, NeedsABudgetToPlan) {
  const Workplace place;
  const std::string deck = fit_deck(place, "{}");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"plan", deck, "--ranks", "2"}, {"deck", "check", deck}}) {
    const Outcome outcome = run({.args = args});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("model.fit = 0.5: needs memory.device_gib"), std::string::npos)
        << outcome.err;
  }
}

TEST(Fit, RefusesToRunWhereNotEvenOneLayerFits) {
  const Workplace place;
  const std::string deck = fit_deck(place, R"({"device_gib": 0.001})");
  const Outcome ran = run({.args = {"run", deck, "--out", place.out()}, .ranks = 2});
  EXPECT_EQ(ran.status, 3);
  EXPECT_NE(ran.err.find("model.fit = 0.5: it does not fit in memory: not even one layer"),
            std::string::npos)
      << ran.err;
  EXPECT_EQ(lines_of(ran.err).size(), 1U) << ran.err;
  const Outcome plan = run({.args = {"plan", deck, "--ranks", "2"}});
  EXPECT_EQ(plan.status, 0);
  EXPECT_NE(plan.out.find("not even one layer"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::fit_command_test
