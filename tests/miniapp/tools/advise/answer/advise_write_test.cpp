// SPDX-License-Identifier: Apache-2.0
// What `advise --write` leaves can be given to the frameworks: a DeepSpeed config of DeepSpeed's
// own types and keys, and PyTorch's arguments as JSON and as Python. Read back, both give the plan
// of the advice.
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::advise_write_test {
namespace {

const char* const small_machine =
    R"({"machine_file": 1, "name": "small", "node": {"ranks": 2, "host_memory_gib": 64, "disk_gib": 500},
        "device": {"memory_gib": 4, "peak_tflops": {"fp32": 1, "bf16": 2, "fp16": 2},
                   "memory_gb_per_s": 100, "launch_us": 1},
        "host_link": {"to_device": {"gb_per_s": 10}, "to_host": {"gb_per_s": 10}},
        "network": [{"name": "bus", "link": {"latency_us": 1, "gb_per_s": 20}},
                    {"name": "net", "between_nodes": true, "link": {"latency_us": 5, "gb_per_s": 1},
                     "node_gb_per_s": 2}]})";

class AdviseWrite : public testing::Test {
 protected:
  Json answer(const std::vector<std::string>& args) {
    const Outcome outcome = run({.args = args, .limit_s = 60});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? Json::parse(outcome.out) : Json();
  }
  // The advice with its files in `folder`.
  Json advice(const std::string& deck, const std::string& folder,
              const std::vector<std::string>& more = {}) {
    std::vector<std::string> args{"advise",   deck,   "--machine", machine_,
                                  "--ranks",  "4",    "--batch",   "16",
                                  "--format", "json", "--write",   place_.path(folder)};
    args.insert(args.end(), more.begin(), more.end());
    return answer(args);
  }
  std::string plan_hash(const std::string& deck, const std::vector<std::string>& sets) {
    std::vector<std::string> args{"plan", deck,       "--ranks", "4", "--ranks-per-node",
                                  "2",    "--format", "json"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return answer(args).at("plan_hash");
  }
  Workplace place_;
  std::string machine_ = place_.write("machine.json", small_machine);
};

// Without the ending.
std::string base_of(const std::string& deck) {
  return deck.substr(0, deck.size() - std::string(".json").size());
}

// A config with numbers as people write them, an old key, an alias and a key that DeepSpeed does
// not know.
Json untidy_config() {
  return {{"deepspeed",
           {{"bf16", {{"enabled", "true"}}},
            {"my_remark", "ours"},
            {"train_micro_batch_size_per_gpu", 2},
            {"zero_optimization",
             {{"stage", 2},
              {"cpu_offload", true},
              {"overlap_comm", nullptr},
              {"reduce_bucket_size", 2e6},
              {"stage3_prefetch_bucket_size", "auto"},
              {"contiguous_gradients", 1}}}}}};
}

TEST_F(AdviseWrite, LeavesAConfigThatDeepSpeedTakes) {
  const Json told = advice(place_.deck(2, untidy_config()), "advice");
  int configs = 0;
  for (const Json& path : told.at("written")) {
    const std::string file = path;
    if (!file.ends_with("-deepspeed.json")) continue;
    ++configs;
    const Json config = Json::parse(read_text(file));  // plain JSON, without comments
    EXPECT_EQ(config.at("train_batch_size"), 16);
    EXPECT_EQ(config.at("train_micro_batch_size_per_gpu").get<int>() *
                  config.at("gradient_accumulation_steps").get<int>() * 4,
              16);
    EXPECT_EQ(config.at("bf16").at("enabled"), Json(true));
    EXPECT_TRUE(config.at("optimizer").at("params").contains("lr"));
    const Json& zero = config.at("zero_optimization");
    EXPECT_TRUE(zero.at("reduce_bucket_size").is_number_integer()) << zero;
    EXPECT_EQ(zero.at("contiguous_gradients"), Json(true));
    for (const char* gone : {"cpu_offload", "overlap_comm", "stage3_prefetch_bucket_size"})
      if (zero.contains(gone)) {
        EXPECT_TRUE(zero.at(gone).is_boolean() || zero.at(gone).is_number_integer()) << gone;
      }
    EXPECT_FALSE(zero.contains("cpu_offload"));
    EXPECT_FALSE(config.contains("my_remark"));
    EXPECT_EQ(config.dump().find("auto"), std::string::npos);
    const std::string deck = file.substr(0, file.find("-deepspeed.json")) + ".json";
    EXPECT_EQ(plan_hash(deck, {"deepspeed=" + file}), plan_hash(deck, {}));
  }
  EXPECT_GE(configs, 3);
}

// The config in the deck of the user gives what the advice says.
TEST_F(AdviseWrite, LeavesAConfigWithTheFiguresOfTheAdvice) {
  const std::string deck = place_.deck(3, untidy_config());
  const Json told = advice(deck, "advice");
  const std::string config =
      base_of(told.at("written").at(0).get<std::string>()) + "-deepspeed.json";
  const bool again = told.at("best").at("recomputation");
  const Json predicted =
      answer({"predict", deck, "--machine", machine_, "--ranks", "4", "--format", "json", "--set",
              "deepspeed=" + config, "--set",
              std::string("run.activation_checkpointing=") + (again ? "true" : "false")});
  EXPECT_EQ(predicted.at("points").at(0).at("step_s"), told.at("best").at("step_s"));
}

// Whoever takes the deck that was written needs no further argument.
TEST_F(AdviseWrite, LeavesADeckWithTheFiguresOfTheAdvice) {
  for (const std::string framework : {"deepspeed", "torch", "shardmark"}) {
    const Json advised = advice(place_.deck(2), "advice-" + framework, {"--for", framework});
    const Json& best = advised.at("best");
    const std::string deck = advised.at("written").at(0);
    const Json point =
        answer({"predict", deck, "--machine", machine_, "--ranks", "4", "--format", "json"})
            .at("points")
            .at(0);
    EXPECT_EQ(point.at("step_s"), best.at("step_s")) << framework;
    EXPECT_EQ(point.at("tokens_per_s"), best.at("tokens_per_s")) << framework;
    EXPECT_EQ(point.at("memory").at("device").at("bytes"), best.at("device_bytes")) << framework;
    const Json device =
        answer({"plan", deck, "--ranks", "4", "--ranks-per-node", "2", "--format", "json"})
            .at("memory")
            .at("device");
    EXPECT_EQ(device.at("arena"), best.at("device_bytes")) << framework;
  }
}

TEST_F(AdviseWrite, FillsWhatTheTrainerFills) {
  const Json told =
      advice(place_.deck(2, {{"hf",
                              {{"per_device_train_batch_size", 2},
                               {"gradient_accumulation_steps", 2},
                               {"learning_rate", 0.5}}},
                             {"deepspeed",
                              {{"train_batch_size", "auto"},
                               {"train_micro_batch_size_per_gpu", "auto"},
                               {"gradient_accumulation_steps", "auto"},
                               {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", "auto"}}}}},
                               {"zero_optimization", {{"reduce_bucket_size", "auto"}}}}}}),
             "advice");
  const std::string base = base_of(told.at("written").at(0));
  const Json config = Json::parse(read_text(base + "-deepspeed.json"));
  EXPECT_EQ(config.at("optimizer").at("params").at("lr"), 0.5);
  EXPECT_EQ(config.dump().find("auto"), std::string::npos);
  EXPECT_FALSE(Json::parse(read_text(base + ".json")).contains("hf"));
  EXPECT_EQ(plan_hash(base + ".json", {"deepspeed=" + base + "-deepspeed.json"}),
            plan_hash(base + ".json", {}));
}

TEST_F(AdviseWrite, LeavesWhatPyTorchIsGiven) {
  const Json told = advice(place_.deck(3), "advice", {"--for", "torch"});
  std::set<std::string> wrappers;
  for (const Json& path : told.at("written")) {
    const std::string file = path;
    if (!file.ends_with("-torch.json")) continue;
    const Json json = Json::parse(read_text(file));
    const std::string base = file.substr(0, file.find("-torch.json"));
    const std::string python = read_text(base + "-torch.py");
    wrappers.insert(json.at("wrapper"));
    EXPECT_EQ(json.at("micro_batch_size").get<int>() *
                  json.at("gradient_accumulation_steps").get<int>() * 4,
              16);
    const bool shards = json.at("wrapper") == "fully_shard";
    EXPECT_EQ(json.at("torch").contains("mesh"), shards);
    EXPECT_NE(python.find(shards ? "fully_shard(block" : "DistributedDataParallel(model"),
              std::string::npos)
        << python;
    EXPECT_EQ(plan_hash(base + ".json", {"torch=" + json.at("torch").dump()}),
              plan_hash(base + ".json", {}));
  }
  EXPECT_EQ(wrappers.size(), 3U);  // DDP, DDP with ZeroRedundancyOptimizer, fully_shard
}

// No DeepSpeed config turns recomputation on, so what counts on it is named.
TEST_F(AdviseWrite, NamesConfigsThatCountOnTheScript) {
  const std::string deck = place_.deck(
      3, {{"model", {{"layers", 8}, {"hidden", 128}, {"heads", 4}, {"sequence", 256}}}});
  const std::vector<std::string> budgets{"--set", "memory.host_gib=0.0001"};
  const auto device_bytes = [&](const char* again) {
    return answer({"plan", deck, "--ranks", "4", "--format", "json", "--set",
                   "deepspeed.train_batch_size=16", "--set",
                   std::string("run.activation_checkpointing=") + again})
        .at("memory")
        .at("device")
        .at("arena")
        .get<double>();
  };
  const double between = (device_bytes("true") + device_bytes("false")) / 2;
  std::vector<std::string> more = budgets;
  more.insert(more.end(), {"--set", "memory.device_gib=" + std::to_string(between / (1 << 30))});
  for (const bool lacks_memory : {true, false}) {
    const std::string folder = lacks_memory ? "small" : "large";
    const Json told = advice(deck, folder, lacks_memory ? more : budgets);
    const std::string text = read_text(place_.path(folder) + "/advice.txt");
    EXPECT_TRUE(text.starts_with("Use stage ")) << text;
    bool any = false;  // whether a written config counts on recomputation
    for (const Json& deck_file : told.at("written")) {
      const Json run = Json::parse(read_text(deck_file)).value("run", Json::object());
      const bool again = run.value("activation_checkpointing", false);
      const std::string base = base_of(deck_file);
      const std::string config = base.substr(base.rfind('/') + 1) + "-deepspeed.json";
      EXPECT_EQ(text.find(config + " counts on activation recomputation") != std::string::npos,
                again)
          << text;
      any = any || again;
    }
    EXPECT_EQ(any, lacks_memory);
    EXPECT_EQ(text.find("Without it, it does not fit: ") != std::string::npos, lacks_memory);
  }
}

TEST_F(AdviseWrite, EndsWithStatus4IfItCannotWrite) {
  const std::string file = place_.write("file", "");
  for (const std::string& folder : {file, file + "/below"}) {
    const Outcome outcome = run({.args = {"advise", place_.deck(0), "--machine", machine_,
                                          "--ranks", "2", "--batch", "2", "--write", folder},
                                 .limit_s = 60});
    EXPECT_EQ(outcome.status, 4) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace shardmark::test::advise_write_test
