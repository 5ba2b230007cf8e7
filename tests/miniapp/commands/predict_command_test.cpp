// SPDX-License-Identifier: Apache-2.0
// `shardmark predict` for users: what does not fit has no time, is named with what is missing and
// where, and ends with status 3; a model config and a DeepSpeed config are enough for an answer;
// and `sweep` and `trace` say the same.
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::predict_command_test {
namespace {

using Args = std::vector<std::string>;

Outcome predict(Args args) {
  args.insert(args.begin(), "predict");
  return run({.args = args});
}

bool says(const Outcome& o, const std::string& text) {
  return o.out.find(text) != std::string::npos || o.err.find(text) != std::string::npos;
}

TEST(Predict, GivesNoTimeToWhatDoesNotFit) {
  const Args deck{"llama-70b", "--machine", "dgx-a100-80gb", "--ranks", "8"};
  const Outcome o = predict(deck);
  EXPECT_EQ(o.status, 3) << o.err;
  EXPECT_TRUE(says(o, "DOES NOT FIT")) << o.out;
  EXPECT_TRUE(says(o, "GiB of device memory missing at init, event ")) << o.out;
  EXPECT_FALSE(says(o, "tokens/s)  forward")) << o.out;
  EXPECT_FALSE(says(o, "communication exposed")) << o.out;
  Args json = deck;
  json.insert(json.end(), {"--format", "json"});
  const Outcome scripts = predict(json);
  EXPECT_EQ(scripts.status, 3);
  const Json point = Json::parse(scripts.out).at("points").at(0);
  EXPECT_FALSE(point.at("fits"));
  EXPECT_TRUE(point.at("step_s").is_null());
  const Json device = point.at("memory").at("device");
  EXPECT_GT(device.at("bytes"), device.at("budget"));
  Args asked = deck;
  asked.emplace_back("--ignore-memory");
  const Outcome timed = predict(asked);
  EXPECT_EQ(timed.status, 0);
  EXPECT_TRUE(says(timed, "DOES NOT FIT")) << timed.out;
  EXPECT_TRUE(says(timed, "communication exposed")) << timed.out;
}

TEST(Predict, TakesTheBudgetsOfTheDeck) {
  const Args deck{"llama-7b", "--machine", "dgx-a100-80gb", "--ranks", "8", "--set"};
  const auto with = [&](const char* gib) {
    Args args = deck;
    args.push_back(std::string("memory.device_gib=") + gib);
    return predict(args);
  };
  EXPECT_EQ(with("16").status, 3);
  EXPECT_EQ(with("40").status, 0);
}

TEST(Predict, SaysWhichRankCountsFit) {
  const Outcome o = predict({"llama-70b", "--machine", "dgx-a100-80gb", "--ranks", "8,64"});
  EXPECT_EQ(o.status, 3);
  EXPECT_TRUE(says(o, "tokens/s")) << o.out;
  const Outcome all = predict({"llama-70b", "--machine", "dgx-a100-80gb", "--ranks", "64,128"});
  EXPECT_EQ(all.status, 0);
  EXPECT_FALSE(says(all, "DOES NOT FIT")) << all.out;
}

// The sum of what is named is what lives at the peak.
TEST(Predict, NamesMemoryByKind) {
  const Outcome o =
      predict({"llama-7b", "--machine", "dgx-h100", "--ranks", "64", "--format", "json"});
  const Json point = Json::parse(o.out).at("points").at(0);
  std::int64_t sum = 0;
  for (const auto& [category, bytes] : point.at("memory_at_peak").at("device").items())
    sum += bytes.get<std::int64_t>();
  const Json plan = Json::parse(run({.args = {"plan", "llama-7b", "--ranks", "64",
                                              "--ranks-per-node", "8", "--format", "json"}})
                                    .out);
  EXPECT_EQ(sum, plan.at("memory").at("device").at("peak"));
  EXPECT_EQ(point.at("volume"), plan.at("volume").at("steady"));
  EXPECT_EQ(point.at("per_parameter"), plan.at("volume").at("per_parameter"));
}

TEST(Predict, AnswersForAModelConfigAndADeepSpeedConfig) {
  const Workplace place;
  const std::string model = place.write(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "hidden_act": "silu",
          "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
          "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "tie_word_embeddings": false})");
  const std::string config =
      place.write("ds.json",
                  R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 2}})");
  const Args given{"--model",  model,     "--deepspeed", config,       "--machine",
                   "dgx-h100", "--ranks", "8",           "--sequence", "1024"};
  const Outcome o = predict(given);
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* text :
       {"1024 tokens per sample", "ZeRO stage 2", "device memory, rank 0: ", "states ",
        "activations ", "buffers ", "volume per step: ", "9 of 10 steps within", "limited by ",
        "next best change: "})
    EXPECT_TRUE(says(o, text)) << text << "\n" << o.out;
  // The same as a deck gives the same.
  const std::string deck = place.write(
      "both.json", R"({"model": {"config": "config.json", "sequence": 1024}, "deepspeed": "ds.json",
                       "data": {"source": "uniform"}, "run": {"steps": 1}})");
  const auto point = [](const Outcome& answer) {
    return Json::parse(answer.out).at("points").at(0);
  };
  Args json = given;
  json.insert(json.end(), {"--format", "json"});
  EXPECT_EQ(point(predict(json)),
            point(predict({deck, "--machine", "dgx-h100", "--ranks", "8", "--format", "json"})));
}

// The batch is checked last, when the ranks are known, and is still that of its file.
TEST(Predict, NamesTheConfigWhoseBatchDoesNotFitTheRanks) {
  const Workplace place;
  const std::string model = place.write("config.json", R"({"model_type": "gpt2"})");
  const std::string config = place.write("ds.json", R"({"train_batch_size": 12})");
  const Outcome o = predict({"--model", model, "--deepspeed", config, "--machine", "dgx-h100",
                             "--ranks", "8", "--sequence", "1024"});
  EXPECT_EQ(o.status, 2);
  EXPECT_TRUE(says(o, "ds.json: deepspeed.train_batch_size = 12: must be a multiple of ranks = 8"))
      << o.err;
}

TEST(Predict, NamesWhatIsMissing) {
  const Outcome config = predict({"--model", "config.json", "--machine", "dgx-h100"});
  EXPECT_EQ(config.status, 2);
  EXPECT_TRUE(says(config, "--deepspeed FILE")) << config.err;
  const Outcome none = predict({"--machine", "dgx-h100"});
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(says(none, "--model FILE")) << none.err;
  const Outcome both =
      predict({"llama-7b", "--model", "config.json", "--machine", "dgx-h100", "--ranks", "8"});
  EXPECT_EQ(both.status, 2);
  EXPECT_TRUE(says(both, "give one of the two")) << both.err;
  for (const Args& twice : {Args{"--sequence", "4096", "--set", "model.sequence=2048"},
                            Args{"--batch", "64", "--set", "deepspeed.train_batch_size=128"}}) {
    Args args{"llama-7b", "--machine", "dgx-h100", "--ranks", "8"};
    args.insert(args.end(), twice.begin(), twice.end());
    const Outcome o = predict(args);
    EXPECT_EQ(o.status, 2);
    EXPECT_TRUE(says(o, twice[0]) && says(o, twice[3])) << o.err;
  }
}

// The change that is offered has the time that it is offered with. Returns the change.
Json expect_change_that_holds(const Args& deck) {
  const Json next = Json::parse(predict(deck).out).at("next_change");
  if (!next.is_object()) return ADD_FAILURE() << "no change", next;
  Args changed = deck;
  for (const auto& [key, value] : next.at("deck_changes").items()) {
    changed.emplace_back("--set");
    changed.push_back(key + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  const Outcome o = predict(changed);
  EXPECT_EQ(o.status, 0) << o.err;
  const Json point = Json::parse(o.out).at("points").at(0);
  EXPECT_TRUE(point.at("fits"));
  EXPECT_NEAR(point.at("step_s").get<double>(), next.at("step_s").get<double>(),
              0.02 * next.at("step_s").get<double>());
  return next;
}

TEST(Predict, OffersAChangeThatHolds) {
  expect_change_that_holds(
      {"llama-70b", "--machine", "dgx-a100-80gb", "--ranks", "8", "--format", "json"});
}

// Whole experts do not fit a GPU under ZeRO-1.
TEST(Predict, OffersADegreeThatHolds) {
  const Json next = expect_change_that_holds(
      {"mixtral-8x7b-ep8", "--set", "deepspeed.expert_parallel.enabled=false", "--machine",
       "dgx-h100", "--ranks", "32", "--format", "json"});
  EXPECT_EQ(next.at("deck_changes").at("deepspeed.expert_parallel.autoep_size"), 8);
}

TEST(Predict, SaysWhatSweepAndTraceSay) {
  const Workplace place;
  const Outcome swept =
      run({.args = {"sweep", "llama-7b", "--plan", "--machine", "dgx-a100-80gb", "--ranks", "8",
                    "--vary", "deepspeed.zero_optimization.stage=0,3", "--out", place.out()}});
  EXPECT_EQ(swept.status, 3) << swept.err;
  EXPECT_TRUE(says(swept, "planned, does not fit")) << swept.out;
  EXPECT_TRUE(says(swept, "missing. It would die at")) << swept.out;
  const std::string page = read_text(place.out() + "/sweep.html");
  EXPECT_EQ(page.find("so there are no times"), std::string::npos);
  const std::vector<std::string> lines = lines_of(read_text(place.out() + "/sweep.csv"));
  ASSERT_EQ(lines.size(), 3U);
  const Outcome predicted =
      predict({"llama-7b", "--machine", "dgx-a100-80gb", "--ranks", "8", "--format", "json"});
  const double step_s = Json::parse(predicted.out).at("points").at(0).at("step_s");
  EXPECT_NE(lines[2].find("," + Json(step_s).dump() + ","), std::string::npos) << lines[2];
  const Outcome traced =
      run({.args = {"trace", "llama-7b", "--set", "deepspeed.zero_optimization.stage=0", "--ranks",
                    "8", "--machine", "dgx-a100-80gb", "--out", place.path("trace")}});
  EXPECT_EQ(traced.status, 3);
  EXPECT_TRUE(says(traced, "missing. It would die at")) << traced.err;
}

// The page has the rates with their interval and the ideal line, and names what has no time.
TEST(Predict, DrawsRatesBesideTheIdeal) {
  const Workplace place;
  const Outcome o = predict(
      {"llama-70b", "--machine", "dgx-a100-80gb", "--ranks", "8,64,512", "--out", place.out()});
  EXPECT_EQ(o.status, 3) << o.err;
  const std::string page = read_text(place.out() + "/prediction.html");
  for (const char* text : {"does not fit", "missing at init", "9 of 10 steps lie between these",
                           "% of the ideal", "every rank as fast as on the fewest ranks"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  // Memory over ranks with the machine's as a line, and the volume of a step.
  for (const char* text : {"aria-label=\"Memory of the device over ranks", "class=\"limit\"",
                           "budget: 74.45 GiB", "reduce_scatter", "activations"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  // The first timed point is the reference, so it is all of the ideal.
  EXPECT_NE(page.find("64 ranks: "), std::string::npos);
  EXPECT_NE(page.find("100.0 % of the ideal"), std::string::npos);
}

Json points_of(Args args) {
  args.insert(args.end(), {"--format", "json"});
  const Outcome o = predict(std::move(args));
  EXPECT_EQ(o.status, 0) << o.err;
  return Json::parse(o.out).at("points");
}

// Strong scaling: accumulation follows from the batch.
TEST(Predict, KeepsTheBatchThatIsAskedFor) {
  const Args args{"llama-7b", "--machine", "dgx-h100", "--ranks", "8,16,64"};
  Args strong = args;
  strong.insert(strong.end(), {"--batch", "512"});
  for (const Json& point : points_of(strong)) EXPECT_EQ(point.at("tokens_per_step"), 512 * 2048);
  const Json weak = points_of(args);
  EXPECT_EQ(weak.at(1).at("tokens_per_step"), 2 * weak.at(0).at("tokens_per_step").get<double>());
  Args odd = strong;
  odd.back() = "100";
  const Outcome refused = predict(odd);
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(says(refused, "train_batch_size = 100: must be a multiple of")) << refused.err;
}

TEST(Predict, SaysWhereAlmostNothingIsLeft) {
  const Args deck{"llama-7b", "--machine", "dgx-h100", "--ranks", "64"};
  const double bytes = points_of(deck).at(0).at("memory").at("device").at("bytes");
  const auto with = [&](double times) {
    Args args = deck;
    args.insert(args.end(),
                {"--set", "memory.device_gib=" + std::to_string(bytes * times / (1 << 30))});
    return args;
  };
  for (const auto& [times, tight] : {std::pair{1.01, true}, std::pair{1.1, false}}) {
    EXPECT_EQ(points_of(with(times)).at(0).at("memory").at("device").at("tight"), tight) << times;
    const Outcome o = predict(with(times));
    EXPECT_EQ(says(o, "it fits tightly"), tight) << o.out;
    EXPECT_TRUE(says(o, "(memory.device_gib of the deck): fits")) << o.out;
  }
}

TEST(Predict, NotesWhatIsUnusual) {
  const Outcome o = predict({"llama-7b", "--machine", "dgx-h100", "--ranks", "60"});
  EXPECT_TRUE(says(o, "60 ranks are no multiple of the 8 of a node: the last node has 4")) << o.out;
  const Outcome even = predict({"llama-7b", "--machine", "dgx-h100", "--ranks", "64"});
  EXPECT_FALSE(says(even, "no multiple of")) << even.out;
}

// With one number of ranks, the page has the next change; micro-batches are counted as drawn.
TEST(Predict, PageSaysTheNextChangeAndWhatIsDrawn) {
  const Workplace place;
  const auto page = [&](const std::string& accumulation) {
    const Outcome o =
        predict({"gpt-tiny-z1", "--machine", "dgx-a100-80gb", "--ranks", "2", "--out", place.out(),
                 "--set", "deepspeed.gradient_accumulation_steps=" + accumulation});
    EXPECT_EQ(o.status, 0) << o.err;
    return read_text(place.out() + "/prediction.html");
  };
  const std::string one = page("1");
  EXPECT_NE(one.find("ext best change"), std::string::npos);
  EXPECT_EQ(one.find("micro-batches are drawn"), std::string::npos);
  EXPECT_NE(page("9").find("of the 9 micro-batches are drawn"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::predict_command_test
