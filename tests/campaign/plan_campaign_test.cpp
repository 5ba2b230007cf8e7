// SPDX-License-Identifier: Apache-2.0
// (f) Any deck that is legal has a plan within 5 s of computing and 1 GiB, and any other deck is
// refused in one line within the same bounds.
#include <tests/campaign/campaign.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::plan_campaign_test {
namespace {

class RandomDeck {
 public:
  explicit RandomDeck(Campaign& campaign) : c_(campaign) {}

  Json deck() {
    Json run = {{"steps", 1}, {"compute", "none"}, {"schedule", one("deepspeed", "paper")}};
    if (chance(4)) run["activation_checkpointing"] = true;
    if (chance(6)) run["shard_size"] = std::int64_t{1} << c_.random(6);
    if (chance(4)) run["reductions"] = "ordered";
    if (chance(3)) run["memory_mode"] = "strict";
    return {{"name", "random"},
            {"model", chance(3) ? list() : transformer()},
            {"deepspeed", deepspeed()},
            {"run", run}};
  }

 private:
  bool chance(std::int64_t in) { return c_.random(in) == 0; }
  const char* one(const char* a, const char* b) { return chance(2) ? a : b; }
  // From 1 to `most`, each size as likely as its half.
  std::int64_t log_uniform(std::int64_t most) {
    std::int64_t bound = most;
    for (std::int64_t halvings = c_.random(40); halvings > 0 && bound > 1; --halvings) bound /= 2;
    return 1 + c_.random(bound);
  }

  Json transformer() {
    const bool gpt2 = chance(2);
    const std::int64_t heads = std::int64_t{1} << c_.random(7);
    Json model = {
        {"family", gpt2 ? "gpt2" : "llama"},      {"layers", log_uniform(gpt2 ? 1365 : 1820)},
        {"hidden", heads * 2 * log_uniform(128)}, {"heads", heads},
        {"sequence", log_uniform(131072)},        {"vocab", 256 + log_uniform(200000)}};
    if (!gpt2) model["ffn"] = log_uniform(65536);
    if (chance(3)) model["tied_head"] = true;
    return model;
  }

  Json list() {
    Json modules = Json::array();
    const std::int64_t count = log_uniform(8000);
    for (std::int64_t m = 0; m < count; ++m) {
      Json numels = Json::array();
      for (std::int64_t p = c_.random(3); p > 0; --p) numels.push_back(log_uniform(1 << 24));
      modules.push_back({{"name", "m" + std::to_string(m)}, {"numels", numels}});
    }
    modules.push_back({{"name", "last"}, {"numels", {log_uniform(1 << 20)}}});
    return {{"family", "list"}, {"modules", modules}};
  }

  Json deepspeed() {
    const std::int64_t stage = c_.random(4);
    Json zero = {{"stage", stage}};
    const auto maybe = [&](const char* key, const Json& value) {
      if (chance(3)) zero[key] = value;
    };
    maybe("reduce_bucket_size", log_uniform(1'000'000'000));
    maybe("allgather_bucket_size", log_uniform(1'000'000'000));
    maybe("stage3_prefetch_bucket_size", log_uniform(1'000'000'000));
    maybe("stage3_max_live_parameters", log_uniform(1'000'000'000));
    maybe("stage3_max_reuse_distance", log_uniform(1'000'000'000));
    maybe("stage3_param_persistence_threshold", log_uniform(1'000'000));
    maybe("sub_group_size", log_uniform(1'000'000'000));
    maybe("overlap_comm", chance(2));
    maybe("contiguous_gradients", chance(2));
    maybe("reduce_scatter", chance(2));
    maybe("round_robin_gradients", chance(2));
    if (stage == 3) maybe("zero_hpz_partition_size", std::int64_t{1} << c_.random(5));
    if (stage > 0) maybe("offload_optimizer", {{"device", "cpu"}});
    if (stage == 3) maybe("offload_param", {{"device", "cpu"}});
    Json config = {{"train_micro_batch_size_per_gpu", log_uniform(64)},
                   {"zero_optimization", zero}};
    if (chance(2)) config["gradient_accumulation_steps"] = log_uniform(1 << 20);
    if (chance(3))
      config["bf16"] = {{"enabled", true}};
    else if (chance(3))
      config["fp16"] = {{"enabled", true}};
    if (chance(4)) config["prescale_gradients"] = true;
    if (chance(4)) config["gradient_predivide_factor"] = 2;
    return config;
  }

  Campaign& c_;
};

TEST(CampaignPlan, AnyDeckIsAnsweredWithinItsBounds) {
  const Workplace place;
  Campaign campaign("plans", 60);
  RandomDeck random(campaign);
  int legal = 0;
  while (campaign.more()) {
    const std::string text = random.deck().dump();
    place.write("random.json", text);
    const std::int64_t ranks = std::int64_t{1} << campaign.random(15);
    const std::string brief = text.size() < 1500 ? text : text.substr(0, 1500) + " …";
    campaign.run_case(std::to_string(ranks) + " ranks: " + brief, [&] {
      const Outcome o =
          run({.args = {"plan", place.path("random.json"), "--ranks", std::to_string(ranks),
                        "--rank", std::to_string(campaign.random(ranks))},
               .limit_s = 300,
               .memory_limit_bytes = std::int64_t{1} << 30,
               .cpu_limit_s = 5,
               .stdout_path = "/dev/null"});
      EXPECT_FALSE(o.timed_out);
      EXPECT_TRUE(o.status == 0 || o.status == 2) << o.status << " " << o.err;
      if (o.status == 2) {
        EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
      }
      legal += o.status == 0 ? 1 : 0;
    });
  }
  std::printf("%d of these decks were legal\n", legal);
  EXPECT_GT(legal, 0);
}

}  // namespace
}  // namespace shardmark::test::plan_campaign_test
