// SPDX-License-Identifier: Apache-2.0
// `deck check` lists keys without effect with the reason, defaults with their values, and inferred
// batch sizes.
#include <algorithm>

#include <io/deck/deck_findings.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deck_findings_test {
namespace {

class DeckCheck : public ::testing::Test {
 protected:
  LoadedDeck read(const std::vector<std::string>& sets) const {
    return read_deck(folder_.write("d.json", good_deck), sets, DeckUse::plan);
  }
  std::string text_of(const LoadedDeck& loaded, FindingKind kind, const std::string& key,
                      std::optional<int> ranks = std::nullopt) const {
    for (const Finding& f : check_deck(loaded, ranks))
      if (f.kind == kind && f.key == key) return f.text;
    return "(no such finding)";
  }
  ScratchFolder folder_;
};

TEST_F(DeckCheck, says_why_a_key_has_no_effect) {
  const std::string zero = "deepspeed.zero_optimization.";
  const auto loaded =
      read({zero + "stage=1", zero + "stage3_max_live_parameters=7",
            zero + "allgather_partitions=false", "deepspeed.steps_per_print=3",
            zero + "offload_param.device=cpu", "data.path=x", "run.schedule=paper"});
  const auto why = [&](const std::string& key) {
    return text_of(loaded, FindingKind::no_effect, key);
  };
  expect_says(why(zero + "reduce_bucket_size"), {"1000", "paper"});
  expect_says(why(zero + "stage3_max_live_parameters"),
              {"7", "only at stage 3", "this is stage 1"});
  expect_says(why(zero + "allgather_partitions"), {"never uses it"});
  expect_says(why(zero + "offload_param"), {"only at stage 3"});
  expect_says(why("deepspeed.steps_per_print"), {"3", "only wall_clock_breakdown"});
  expect_says(why("data.path"), {"x", "file"});
}

// The classes of a family's modules are torch's, not those of a library.
TEST_F(DeckCheck, names_safe_classes_that_the_model_does_not_have) {
  const auto text = [&](const std::string& names) {
    return text_of(read({"run.compute=none",
                         R"(deepspeed.torch_autocast={"enabled": true, "dtype": "bf16",
                                                      "lower_precision_safe_modules": )" +
                             names + "}"}),
                   FindingKind::warning, "deepspeed.torch_autocast.lower_precision_safe_modules");
  };
  expect_says(text(R"(["torch.nn.Linear", "transformers.pytorch_utils.Conv1D"])"),
              {"transformers.pytorch_utils.Conv1D", "no module"});
  EXPECT_EQ(text(R"(["torch.nn.Linear"])"), "(no such finding)");
}

TEST_F(DeckCheck, lists_defaults_with_their_values) {
  const auto loaded = read({});
  const auto value = [&](const std::string& key) {
    return text_of(loaded, FindingKind::defaulted, key);
  };
  EXPECT_EQ(value("run.warmup"), "0");
  EXPECT_EQ(value("run.schedule"), "\"deepspeed\"");
  EXPECT_EQ(value("deepspeed.zero_optimization.sub_group_size"), "1000000000");
  EXPECT_EQ(value("data.seed"), "1");
  EXPECT_EQ(value("comm.timeout_s"), "600.0");
  EXPECT_EQ(value("deepspeed.gradient_clipping"), "1.0");
  EXPECT_EQ(value("deepspeed.optimizer.params.weight_decay"), "0.01");
  EXPECT_EQ(value("run.steps"), "(no such finding)") << "it is given";
}

TEST_F(DeckCheck, says_once_what_has_no_effect) {
  const auto keys = [](const LoadedDeck& loaded) {
    std::vector<std::string> result;
    for (const Finding& f : check_deck(loaded, std::nullopt))
      if (f.kind == FindingKind::no_effect || f.key.starts_with("torch")) result.push_back(f.key);
    return result;
  };
  const std::vector<std::string> offload{"deepspeed.zero_optimization.offload_param.device=cpu",
                                         "deepspeed.aio.block_size=4096"};
  auto stage2 = offload;
  stage2.emplace_back("deepspeed.zero_optimization.stage=2");
  EXPECT_EQ(keys(read(stage2)), (std::vector<std::string>{
                                    "deepspeed.aio", "deepspeed.zero_optimization.offload_param"}))
      << "neither a key twice, nor keys below one, nor defaults of another schedule's section";
  EXPECT_EQ(keys(read({"torch.static_graph=true"})), (std::vector<std::string>{"torch"}));
}

TEST_F(DeckCheck, lists_what_deepspeed_passes_over) {
  const auto loaded = read({"deepspeed.gradient_cliping=3"});
  expect_says(text_of(loaded, FindingKind::ignored, "deepspeed.gradient_cliping"),
              {"unknown to DeepSpeed", "did you mean \"gradient_clipping\""});
  EXPECT_EQ(loaded.deck.zero.gradient_clipping, 1.0);
  expect_says(text_of(read({"deepspeed.overlap_comm=true"}), FindingKind::ignored,
                      "deepspeed.overlap_comm"),
              {"unknown to DeepSpeed", "did you mean \"zero_optimization.overlap_comm\""});
}

TEST_F(DeckCheck, infers_the_batch_for_a_rank_count) {
  EXPECT_EQ(text_of(read({}), FindingKind::derived, "deepspeed.train_batch_size", 4),
            "24 on 4 ranks");
  expect_says(
      message_of<DeckError>([&] { check_deck(read({"deepspeed.train_batch_size=13"}), 2); }),
      {"train_batch_size = 13", "2 x 3 x 2 = 12"});
}

TEST_F(DeckCheck, prints_a_line_a_finding_under_a_heading_a_kind) {
  const auto loaded = read({});
  const auto findings = check_deck(loaded, 2);
  const std::string text = format_findings(loaded, findings);
  EXPECT_NE(text.find("d.json: sound (stage 3"), std::string::npos) << text;
  EXPECT_NE(text.find("\nDefaults taken\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  run.warmup = 0\n"), std::string::npos) << text;
  std::size_t headings = 0, last = 99;
  for (const Finding& f : findings) {
    headings += static_cast<std::size_t>(f.kind) != last;
    last = static_cast<std::size_t>(f.kind);
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            1 + headings + findings.size());
}

}  // namespace
}  // namespace shardmark::test::deck_findings_test
