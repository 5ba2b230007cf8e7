// SPDX-License-Identifier: Apache-2.0
// A deck with the section `hf`: `deck check` lists every "auto" with its value and the reason, an
// "auto" that cannot be known names the key to give, and Accelerate's YAML is read with the words
// that PyYAML reads.
#include <io/deck/deck_findings.hpp>
#include <io/deepspeed/config.hpp>
#include <io/json/yaml.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::hf_deck_test {
namespace {

// Whether this build has yaml-cpp.
bool reads_yaml() {
  try {
    (void)parse_yaml("a: 1", "text");
    return true;
  } catch (const DeckError&) {
    return false;
  }
}

const std::string zero = "deepspeed.zero_optimization.";
const std::string rates = "deepspeed.scheduler.params.";

class HfDeck : public ::testing::Test {
 protected:
  LoadedDeck read(std::vector<std::string> sets, std::optional<int> world = std::nullopt) const {
    return read_deck(folder_.write("d.json", good_deck), sets, DeckUse::plan, world);
  }
  std::string message(const std::vector<std::string>& sets,
                      std::optional<int> world = std::nullopt) const {
    return message_of<DeckError>([&] { read(sets, world); });
  }
  static std::string became(const LoadedDeck& loaded, const std::string& key) {
    for (const Finding& f : loaded.findings)
      if (f.kind == FindingKind::filled && f.key == key) return f.text;
    return "(no such finding)";
  }
  // A config in which all that the trainer fills is "auto".
  std::string all_auto() const {
    folder_.write("auto.json", R"({"train_batch_size": "auto",
      "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
      "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})");
    return "deepspeed=auto.json";
  }
  ScratchFolder folder_;
};

TEST_F(HfDeck, lists_each_auto_with_its_value_and_reason) {
  const auto loaded = read({all_auto(), "hf.per_device_train_batch_size=2"});
  expect_says(became(loaded, zero + "reduce_bucket_size"), {"1024", "hidden x hidden"});
  expect_says(became(loaded, zero + "stage3_prefetch_bucket_size"), {"921", "0.9"});
  expect_says(became(loaded, zero + "stage3_param_persistence_threshold"), {"320", "10 x"});
  expect_says(became(loaded, "deepspeed.train_micro_batch_size_per_gpu"),
              {"2", "hf.per_device_train_batch_size"});
  expect_says(became(loaded, "deepspeed.gradient_accumulation_steps"),
              {"1", "the trainer's default"});
  EXPECT_EQ(loaded.deck.zero.knobs.prefetch_bucket_size, 921);
  EXPECT_EQ(infer_batch(loaded.deck.zero, 3, "d.json").global, 6);
  const std::string text = format_findings(loaded, check_deck(loaded, 3));
  EXPECT_NE(text.find("\nWhat each \"auto\" became\n"), std::string::npos) << text;
}

TEST_F(HfDeck, takes_the_optimizer_of_the_trainer_where_the_config_names_none) {
  const auto loaded = read({all_auto(), "hf.learning_rate=0.25", "hf.adam_beta2=0.5"});
  EXPECT_EQ(loaded.deck.zero.optimizer.lr, 0.25);
  EXPECT_EQ(loaded.deck.zero.optimizer.beta2, 0.5);
  EXPECT_EQ(loaded.deck.zero.optimizer.weight_decay, 0);
}

TEST_F(HfDeck, names_the_key_to_give_for_an_auto_that_cannot_be_known) {
  const std::string lr = "deepspeed.optimizer.params.lr=auto";
  expect_says(message({lr}), {"optimizer.params.lr = \"auto\"", "hf.learning_rate"});
  expect_says(message({all_auto()}), {"hf.per_device_train_batch_size"});
  folder_.write("decay.json", R"({"train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {}, "scheduler": {"type": "WarmupDecayLR",
      "params": {"total_num_steps": "auto", "warmup_num_steps": "auto"}}})");
  expect_says(message({"deepspeed=decay.json", "hf={}"}),
              {"decay.json", rates + "total_num_steps", "give hf.max_steps"});
  const auto loaded = read({"deepspeed=decay.json", "hf.max_steps=50", "hf.warmup_steps=0.1"});
  EXPECT_EQ(loaded.deck.zero.scheduler.total_num_steps, 50);
  EXPECT_EQ(loaded.deck.zero.scheduler.warmup_num_steps, 5);
  expect_says(message({all_auto(), "hf={}", "deepspeed.wall_clock_breakdown=auto"}),
              {"does not fill"});
}

TEST_F(HfDeck, compares_the_global_batch_with_the_number_of_ranks) {
  const std::vector<std::string> sets{all_auto(), "deepspeed.train_batch_size=32", "hf={}"};
  EXPECT_NO_THROW(read(sets, 4));
  expect_says(message(sets, 2), {"train_batch_size = 32", "= 16"});
  EXPECT_NO_THROW(read(sets));  // 4 ranks would do
  expect_says(message({all_auto(), "deepspeed.train_batch_size=33", "hf={}"}),
              {"train_batch_size = 33", "8 x ranks"});
}

TEST_F(HfDeck, leaves_auto_to_deepspeed_without_the_section) {
  const auto loaded =
      read({"deepspeed.zero_optimization.stage=3", zero + "reduce_bucket_size=auto"});
  EXPECT_EQ(loaded.deck.zero.knobs.reduce_bucket_size, 500'000'000);
  expect_says(became(loaded, zero + "reduce_bucket_size"), {"500000000", "DeepSpeed drops"});
}

TEST_F(HfDeck, refuses_unknown_arguments_and_wrong_values) {
  expect_says(message({"hf.learning_rat=1"}), {"hf.learning_rat", "learning_rate"});
  expect_says(message({"hf.per_device_train_batch_size=0"}), {"at least 1"});
  expect_says(message({"hf.warmup_steps=-1"}), {"at least 0"});
  expect_says(message({all_auto(), "hf.hidden_size=7"}), {"hf.hidden_size", "32"});
}

TEST_F(HfDeck, reads_accelerates_yaml) {
  if (!reads_yaml()) GTEST_SKIP() << "this build has no yaml-cpp";
  folder_.write("a.yaml", R"(compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED  # as `accelerate config` writes it
deepspeed_config:
  gradient_accumulation_steps: 2
  gradient_clipping: 0.5
  zero_stage: 3
  zero3_init_flag: true
mixed_precision: 'no'
num_processes: 8
downcast_bf16: no
)");
  const std::vector<std::string> sets{"deepspeed=a.yaml", "hf.per_device_train_batch_size=4",
                                      "hf.gradient_accumulation_steps=2", "hf.max_grad_norm=0.5"};
  const auto loaded = read(sets, 2);
  EXPECT_EQ(loaded.deck.zero.stage, 3);
  EXPECT_EQ(loaded.deck.zero.gradient_clipping, 0.5);
  EXPECT_EQ(loaded.deck.zero.precision.model, Dtype::fp32);
  EXPECT_EQ(infer_batch(loaded.deck.zero, 2, "d.json").global, 16);
  auto with_stage = sets;  // as sweeps set it
  with_stage.push_back(zero + "stage=1");
  EXPECT_EQ(read(with_stage, 2).deck.zero.stage, 1);
  expect_says(message({"deepspeed=a.yaml"}), {"hf.per_device_train_batch_size"});
  expect_says(message({"deepspeed=a.yaml", "deepspeed.distributed_type=FSDP"}), {"DEEPSPEED"});
  expect_says(message({"deepspeed=a.yaml", "deepspeed.num_proceses=1"}), {"num_processes"});
}

TEST_F(HfDeck, follows_accelerates_path_to_a_deepspeed_config) {
  if (!reads_yaml()) GTEST_SKIP() << "this build has no yaml-cpp";
  folder_.write("ds.json", R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},
                               "zero_optimization": {"stage": 2}, "gradient_clipping": "auto"})");
  folder_.write("a.yml", "deepspeed_config: {deepspeed_config_file: ds.json}\n");
  const auto loaded = read({"deepspeed=a.yml", "hf.bf16=true", "hf.max_grad_norm=2"}, 1);
  EXPECT_EQ(loaded.deck.zero.stage, 2);
  EXPECT_EQ(loaded.deck.zero.gradient_clipping, 2.0);
  EXPECT_EQ(loaded.deck.zero.micro_batch_size, 8);
  folder_.write("a.yml", "deepspeed_config: {deepspeed_config_file: gone.json}\n");
  expect_says(message({"deepspeed=a.yml"}), {"gone.json", "no such file"});
}

TEST(Yaml, reads_words_as_pyyaml_does) {
  if (!reads_yaml()) GTEST_SKIP() << "this build has no yaml-cpp";
  const Json v = parse_yaml(
      "a: no\nb: 'no'\nc: 1e-5\nd: 1.0e-5\ne: 12\nf: ~\ng: .5\nh: -3.\n"
      "i: [1, two]\nj: 012\nk: On\n",
      "x.yaml");
  EXPECT_EQ(v, (Json{{"a", false},
                     {"b", "no"},
                     {"c", "1e-5"},
                     {"d", 1e-5},
                     {"e", 12},
                     {"f", nullptr},
                     {"g", 0.5},
                     {"h", -3.0},
                     {"i", {1, "two"}},
                     {"j", "012"},
                     {"k", true}}));
}

TEST(Yaml, refuses_what_is_not_one_config) {
  if (!reads_yaml()) GTEST_SKIP() << "this build has no yaml-cpp";
  EXPECT_THROW(parse_yaml("a: [1", "x.yaml"), JsonSyntaxError);
  expect_says(message_of<DeckError>([] { parse_yaml("a: 1\na: 2\n", "x.yaml"); }),
              {"x.yaml", "given twice", "line 2"});
  std::string deep, wide = "a: &a [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 0; i < 70; ++i) deep += '[';
  expect_says(message_of<DeckError>([&] { parse_yaml("a: " + deep + std::string(70, ']'), "x"); }),
              {"too deep"});
  for (char c = 'b'; c < 'j'; ++c) {  // each names the one before ten times
    wide += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) wide += std::string(i ? ",*" : "*") + static_cast<char>(c - 1);
    wide += "]\n";
  }
  expect_says(message_of<DeckError>([&] { parse_yaml(wide, "x"); }), {"too long"});
}

}  // namespace
}  // namespace shardmark::test::hf_deck_test
