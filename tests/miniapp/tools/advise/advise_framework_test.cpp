// SPDX-License-Identifier: Apache-2.0
// `advise` answers for a framework: its candidates are what the framework runs, its rows differ in
// what matters, it says what it changes, and the files and commands that it leaves give the figures
// of the advice.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::advise_framework_test {
namespace {

// Two devices per node, which lack a part of the larger models here.
std::string machine(const Workplace& place, const std::string& memory_gib = "16") {
  return place.write(
      "machine" + memory_gib + ".json",
      R"({"machine_file": 1, "name": "small", "node": {"ranks": 2, "host_memory_gib": 64},
          "device": {"memory_gib": )" +
          memory_gib +
          R"(, "peak_tflops": {"fp32": 1, "bf16": 8}, "memory_gb_per_s": 400, "launch_us": 1},
          "host_link": {"to_device": {"gb_per_s": 10}, "to_host": {"gb_per_s": 10}},
          "network": [{"name": "bus", "link": {"latency_us": 1, "gb_per_s": 20}},
                      {"name": "net", "between_nodes": true,
                       "link": {"latency_us": 5, "gb_per_s": 1}, "node_gb_per_s": 2}]})");
}

// A model of 50 million parameters in bf16, with recomputation.
Json model_patch() {
  return {{"model",
           {{"layers", 4}, {"hidden", 768}, {"heads", 12}, {"sequence", 256}, {"vocab", 30000}}},
          {"deepspeed", {{"bf16", {{"enabled", true}}}}},
          {"run", {{"activation_checkpointing", true}}}};
}

class AdviseFramework : public testing::Test {
 protected:
  Json answer(std::vector<std::string> args) {
    args.insert(args.begin(), "advise");
    for (const char* more : {"--machine", "", "--format", "json"})
      args.push_back(*more == '\0' ? machine_ : more);
    const Outcome outcome = run({.args = args, .limit_s = 60});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  Json printed(const std::vector<std::string>& args) {
    const Outcome outcome = run({.args = args, .limit_s = 60});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  static std::set<std::string> schedules(const Json& advice) {
    std::set<std::string> found;
    for (const Json& c : advice.at("candidates")) found.insert(c.at("schedule"));
    return found;
  }
  Workplace place_;
  std::string machine_ = machine(place_);
};

using Names = std::set<std::string>;

TEST_F(AdviseFramework, HasTheSchedulesOfTheFrameworkOnly) {
  const std::string deck = place_.deck(2);
  const auto advice_for = [&](const char* framework) {
    return answer({deck, "--ranks", "4", "--batch", "8", "--for", framework});
  };
  EXPECT_EQ(schedules(advice_for("deepspeed")), Names{"deepspeed"});
  EXPECT_EQ(schedules(advice_for("torch")), Names{"torch"});
  const Json all = advice_for("shardmark");
  EXPECT_EQ(schedules(all), (Names{"deepspeed", "paper", "torch"}));
  EXPECT_EQ(all.at("for"), "shardmark");
  const bool paper = all.at("best").at("schedule") == "paper";
  EXPECT_EQ(all.at("verdict").get<std::string>().find("neither DeepSpeed nor PyTorch runs") !=
                std::string::npos,
            paper);
}

TEST_F(AdviseFramework, TakesTheFrameworkOfTheDeck) {
  const auto framework_of = [&](const Json& patch) {
    return answer({place_.deck(2, patch), "--ranks", "2", "--batch", "4"}).at("for");
  };
  EXPECT_EQ(framework_of(Json::object()), "deepspeed");
  EXPECT_EQ(framework_of({{"run", {{"schedule", "paper"}}}}), "deepspeed");
  EXPECT_EQ(framework_of({{"run", {{"schedule", "torch"}}}}), "torch");
  EXPECT_EQ(framework_of({{"torch", {{"bucket_cap_mb", 5}}}}), "torch");
}

TEST_F(AdviseFramework, HasOneRowPerPlan) {
  for (const char* framework : {"deepspeed", "torch", "shardmark"}) {
    const Json advice = answer(
        {place_.deck(3, model_patch()), "--ranks", "8", "--batch", "16", "--for", framework});
    std::set<std::string> plans;
    for (const Json& c : advice.at("candidates")) {
      Json plan = Json::array();
      for (const char* key : {"schedule", "step_s", "device_bytes", "host_bytes"})
        plan.push_back(c.at(key));
      EXPECT_TRUE(plans.insert(plan.dump()).second) << c.dump(2);
    }
    EXPECT_FALSE(advice.at("without_effect").empty());
  }
}

// With one accumulation step stages 1 and 2 of DeepSpeed do the same.
TEST_F(AdviseFramework, HasOneRowForStagesWithOnePlan) {
  const Outcome outcome = run({.args = {"advise", place_.deck(1, model_patch()), "--machine",
                                        machine_, "--ranks", "8", "--batch", "8", "--top", "100"},
                               .limit_s = 60});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.out,
               "without effect here: at stage [12] of deepspeed: [^\n]*stage \\((1, 2|2, 1)\\)"))
      << outcome.out;
}

// A key that follows the stage unless it is set is a change where the stage alone would change it.
TEST_F(AdviseFramework, HasRowsThatCanBeToldApart) {
  Json deck = model_patch();
  deck["model"]["family"] = "gpt2";
  deck["data"] = {{"source", "uniform"}};
  deck["deepspeed"]["train_micro_batch_size_per_gpu"] = 1;
  deck["deepspeed"]["zero_optimization"] = {{"stage", 3}};
  deck["run"] = {{"steps", 2}};
  const std::string path = place_.write("whole.json", deck.dump());
  const Json advice = answer({path, "--ranks", "4", "--batch", "8"});
  std::map<std::string, double> times;
  for (const Json& c : advice.at("candidates")) {
    Json row = Json::array({c.at("stage"), c.at("recomputation")});
    for (const Json& change : c.at("changes")) row.push_back({change.at("key"), change.at("to")});
    const auto [at, is_new] = times.emplace(row.dump(), c.at("step_s"));
    EXPECT_TRUE(is_new) << row << " takes " << at->second << " and " << c.at("step_s");
  }
  EXPECT_GT(times.size(), 20U);
}

TEST_F(AdviseFramework, NamesKeysWithoutEffectOnce) {
  const Outcome outcome = run({.args = {"advise", place_.deck(3), "--machine", machine_, "--ranks",
                                        "2", "--batch", "2", "--top", "100"},
                               .limit_s = 60});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int named = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.find("without effect here: at stage 3 of deepspeed") != std::string::npos) {
      ++named;
      EXPECT_NE(line.find("stage3_param_persistence_threshold"), std::string::npos) << line;
    }
  EXPECT_EQ(named, 1) << outcome.out;
}

TEST_F(AdviseFramework, SaysWhatItChanges) {
  const Json advice = answer({place_.deck(3, model_patch()), "--ranks", "2", "--batch", "8"});
  Json recomputation;
  for (const Json& c : advice.at("changes"))
    if (c.at("key") == "run.activation_checkpointing") recomputation = c;
  ASSERT_FALSE(recomputation.is_null()) << advice.at("changes");
  EXPECT_EQ(recomputation.at("from"), "on");
  EXPECT_EQ(recomputation.at("to"), "off");
  const auto text = advice.at("verdict").get<std::string>();
  for (const Json& c : advice.at("changes")) {
    const auto value = [](const Json& v) {
      return v.is_string() ? v.get<std::string>() : v.dump();
    };
    const std::string words =
        c.at("name").get<std::string>() + " " + value(c.at("from")) + " -> " + value(c.at("to"));
    EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  }
}

TEST_F(AdviseFramework, KeepsTheKindOfRecomputation) {
  Json patch = model_patch();
  patch["run"]["activation_checkpointing"] = "reentrant";
  const Json advice = answer({place_.deck(3, patch), "--ranks", "2", "--batch", "4"});
  int recompute = 0;
  for (const Json& c : advice.at("candidates"))
    if (c.at("recomputation") == true) {
      ++recompute;
      EXPECT_EQ(c.at("deck_changes").at("run.activation_checkpointing"), "reentrant");
    }
  EXPECT_GT(recompute, 0);
}

// The deck's micro-batch of 3 is not next to a power of two, and its offload has a ratio.
TEST_F(AdviseFramework, HasTheDeckAmongTheCandidates) {
  Json patch = model_patch();
  patch["deepspeed"]["train_micro_batch_size_per_gpu"] = 3;
  patch["deepspeed"]["gradient_accumulation_steps"] = 48;
  patch["memory"] = {{"device_gib", 8}, {"host_gib", 64}};
  patch["deepspeed"]["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"},
                                                                  {"ratio", 0.5}};
  const Json advice = answer({place_.deck(3, patch), "--ranks", "2"});
  const Json& given = advice.at("as_given");
  const Json& all = advice.at("candidates");
  ASSERT_TRUE(given.at("fits")) << given;
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Json& c) {
    return c.at("step_s") == given.at("step_s") && c.at("device_bytes") == given.at("device_bytes");
  })) << given;
  EXPECT_GE(advice.at("best").at("tokens_per_s"), given.at("tokens_per_s"));
}

TEST_F(AdviseFramework, SaysThatTheDeckIsTheBest) {
  const std::string folder = place_.path("best");
  const std::vector<std::string> more{"--ranks", "2", "--batch", "8"};
  std::vector<std::string> args{place_.deck(2, model_patch()), "--write", folder};
  args.insert(args.end(), more.begin(), more.end());
  const Json first = answer(args);
  args = {first.at("written").at(0)};
  args.insert(args.end(), more.begin(), more.end());
  const Json again = answer(args);
  EXPECT_TRUE(again.at("changes").empty()) << again.at("changes");
  EXPECT_NE(again.at("verdict").get<std::string>().find("That is the deck as it is."),
            std::string::npos);
  EXPECT_EQ(again.at("best").at("step_s"), first.at("best").at("step_s"));
}

// A step that is computed in bf16 takes bf16's rate, also where the parameters are kept in fp32.
TEST_F(AdviseFramework, PricesPyTorchAtTheRateOfItsType) {
  const auto seconds = [&](const Json& patch) {
    return printed({"predict", place_.deck(3, patch), "--machine", machine_, "--ranks", "1",
                    "--set", "run.schedule=torch", "--format", "json", "--ignore-memory"})
        .at("points")
        .at(0)
        .at("step_s")
        .get<double>();
  };
  Json fp32 = model_patch();
  fp32["deepspeed"]["bf16"]["enabled"] = false;
  EXPECT_LT(seconds(model_patch()), 0.5 * seconds(fp32));
}

// Splits a command line that has no quotes inside words.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  std::istringstream in(command);
  for (std::string word; in >> word;) {
    word.erase(std::remove(word.begin(), word.end(), '\''), word.end());
    words.push_back(word);
  }
  return words;
}

TEST_F(AdviseFramework, EndsWithCommandsThatWork) {
  for (const bool writes : {false, true}) {
    std::vector<std::string> args{place_.deck(2, model_patch()), "--ranks", "4", "--batch", "16"};
    if (writes) args.insert(args.end(), {"--write", place_.path("advice")});
    const Json advice = answer(args);
    const Json& commands = advice.at("check_commands");
    ASSERT_EQ(commands.size(), 3U);
    for (int i = 0; i < 2; ++i) {
      std::vector<std::string> words = words_of(commands.at(i));
      ASSERT_EQ(words.front(), "shardmark");
      words.erase(words.begin());
      words.insert(words.end(), {"--format", "json"});
      const Json checked = printed(words);
      if (i == 0) {
        EXPECT_EQ(checked.at("points").at(0).at("step_s"), advice.at("best").at("step_s"));
      } else {
        EXPECT_EQ(checked.at("memory").at("device").at("arena"),
                  advice.at("best").at("device_bytes"));
      }
    }
    EXPECT_TRUE(commands.at(2).get<std::string>().starts_with("mpiexec -n 4 shardmark run "));
  }
}

// The text has commands that a line holds: they take a written deck, not all changes again.
TEST_F(AdviseFramework, EndsWithShortCommands) {
  const Outcome outcome = run({.args = {"advise", place_.deck(2, model_patch()), "--ranks", "4",
                                        "--batch", "16", "--machine", machine_},
                               .limit_s = 60});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::string written;
  int commands = 0;
  for (const std::string& line : lines_of(outcome.out)) {
    if (line.starts_with("  shardmark advise ")) written = line;
    if (!line.starts_with("  shardmark ") && !line.starts_with("  mpiexec ")) continue;
    ++commands;
    EXPECT_EQ(line.find("--set"), std::string::npos) << line;
    if (line != written) {
      EXPECT_NE(line.find(" advice/best-stage"), std::string::npos) << line;
    }
  }
  EXPECT_EQ(commands, 4) << outcome.out;
  EXPECT_TRUE(written.ends_with(" --write advice")) << written;
}

// A model config and a DeepSpeed config are the same question as the deck with both.
TEST_F(AdviseFramework, AnswersForAModelConfig) {
  const std::string model = place_.write(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "hidden_act": "silu",
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
          "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "tie_word_embeddings": false})");
  const std::string config = place_.write("ds.json", R"({"train_micro_batch_size_per_gpu": 2,
      "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
  const std::string deck = place_.write(
      "both.json", R"({"model": {"config": "config.json", "sequence": 512}, "deepspeed": "ds.json",
                       "data": {"source": "uniform"}, "run": {"steps": 1}})");
  const Json of_deck = answer({deck, "--ranks", "4", "--batch", "16"});
  const Json of_files = answer({"--model", model, "--deepspeed", config, "--sequence", "512",
                                "--ranks", "4", "--batch", "16"});
  EXPECT_EQ(of_deck.at("candidates"), of_files.at("candidates"));
  EXPECT_EQ(of_files.at("for"), "deepspeed");
}

}  // namespace
}  // namespace shardmark::test::advise_framework_test
