// SPDX-License-Identifier: Apache-2.0
// (e) A bit of what a collective delivers is flipped in every call, for every verb, stage,
// schedule, kind of sum, rank and bit: no such run is VALID.
#include <filesystem>

#include <tests/campaign/campaign.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::values_campaign_test {
namespace {

struct Verb {
  const char* call;
  bool sums;  // the library's own sums, which may differ by rounding
};
constexpr Verb verbs[] = {
    {"MPI_Iallgather", false},           {"MPI_Iallgatherv", false}, {"MPI_Ialltoall", false},
    {"MPI_Ialltoallv", false},           {"MPI_Igather", false},     {"MPI_Iallreduce", true},
    {"MPI_Ireduce_scatter_block", true}, {"MPI_Ireduce", true}};
constexpr const char* schedules[] = {"deepspeed", "paper", "torch"};

TEST(CampaignValues, NoRunWithWrongValuesIsValid) {
  Campaign campaign("values", 24);
  int changed = 0, named = 0;
  while (campaign.more()) {
    const Verb& verb = campaign.one_of(verbs);
    const int stage = static_cast<int>(campaign.random(4)),
              ranks = 2 + static_cast<int>(campaign.random(2));
    const std::string schedule = campaign.one_of(schedules);
    const bool ordered = campaign.random(2) == 0;
    // PyTorch's DistributedDataParallel is modelled in fp32.
    const bool half = campaign.random(3) == 0 && (schedule != "torch" || stage >= 2);
    // DeepSpeed quantizes shards of multiples of 8 elements, which this model has on 2 ranks.
    const bool quantized =
        stage == 3 && schedule == "deepspeed" && ranks == 2 && campaign.random(2) == 0;
    const std::int64_t rank = campaign.random(ranks + 1) - 1;
    // A flip of the highest exponent bit of either half word is beyond any rounding.
    const std::int64_t bit =
        verb.sums ? (half && campaign.random(2) == 0 ? 14 : 30) : campaign.random(32);
    const std::string order = std::string(verb.call) + " " + std::to_string(rank) + " " +
                              std::to_string(bit) + " 1 100000000";
    campaign.run_case(
        order + ", stage " + std::to_string(stage) + ", " + schedule +
            (quantized ? ", quantized gathers" : "") + (ordered ? ", ordered" : ", native") +
            (half ? ", bf16" : ", fp32") + ", " + std::to_string(ranks) + " ranks",
        [&] {
          const Workplace place;
          Json patch = {{"run",
                         {{"schedule", schedule},
                          {"reductions", ordered ? "ordered" : "native"},
                          {"warmup", 1}}},
                        {"comm", {{"backend", "mpi"}}}};
          if (half) patch["deepspeed"]["bf16"] = {{"enabled", true}};
          if (quantized)
            patch["deepspeed"]["zero_optimization"] = {{"zero_quantized_weights", true},
                                                       {"stage3_param_persistence_threshold", 0}};
          place.deck(stage, patch);
          const std::string log = place.path("log");
          const Outcome o = run({.args = place.run_args(),
                                 .ranks = ranks,
                                 .environment = {{"LD_PRELOAD", SHARDMARK_TEST_PRELOAD},
                                                 {"SHARDMARK_TEST_VALUES", order},
                                                 {"SHARDMARK_TEST_VALUES_LOG", log}}});
          SCOPED_TRACE(o.out + o.err);
          EXPECT_FALSE(o.timed_out);
          EXPECT_FALSE(is_crash(o.status)) << o.status;
          if (!std::filesystem::exists(log)) {
            EXPECT_EQ(o.status, 0);
            return;
          }
          ++changed;
          EXPECT_NE(o.status, 0) << "VALID with wrong values";
          const auto lines = lines_of(o.out);
          named += !lines.empty() && lines.back().find("values: step") != std::string::npos;
        });
  }
  std::printf("%d runs had wrong values, %d verdicts name the collective\n", changed, named);
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace shardmark::test::values_campaign_test
