// SPDX-License-Identifier: Apache-2.0
// Rules: a deck whose layers are divided over ranks is read with its degree, and ranks that divide
// layers share a batch; what cannot be divided, and what is not modelled beside it, is refused by
// the key and says what it is.
#include <algorithm>

#include <io/deepspeed/config.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::axes_test {
namespace {

const char* const divided_deck = R"({
    "model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 48,
              "sequence": 8, "vocab": 64},
    "data": {"source": "uniform"},
    "deepspeed": {"train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 1},
                  "tensor_parallel": {"autotp_size": 2}},
    "run": {"steps": 1}})";

class Axes : public ::testing::Test {
 protected:
  const ScratchFolder folder_;
  const std::string path_ = folder_.write("d.json", divided_deck);
};

TEST_F(Axes, GiveRanksThatDivideLayersOneBatch) {
  const Deck deck = load_deck(path_, {});
  EXPECT_EQ(deck.zero.parallel.tensor, 2);
  const Batch batch = infer_batch(deck.zero, 8, path_);
  EXPECT_EQ(batch.micro, 3);
  EXPECT_EQ(batch.global, 12) << "4 groups with data of their own";
  const Deck whole = load_deck(path_, {"deepspeed.train_batch_size=24"});
  EXPECT_EQ(infer_batch(whole.zero, 8, path_).accumulation, 1) << "DeepSpeed counts all ranks";
}

TEST_F(Axes, DivideNothingByOne) {
  for (const char* size : {"0", "1"}) {
    const Deck deck =
        load_deck(path_, {std::string("deepspeed.tensor_parallel.autotp_size=") + size});
    EXPECT_EQ(deck.zero.parallel.tensor, 1);
  }
}

using Refused = std::pair<const char*, const char*>;  // the change to the deck, and what is said

// What no axis goes with.
const Refused beside_any_axis[] = {
    {"run.compute=none", "run.compute"},
    {"deepspeed.zero_optimization={\"stage\": 3, \"zero_hpz_partition_size\": 2}",
     "zero_hpz_partition_size"},
};

TEST_F(Axes, RefuseWhatIsNotModelledByName) {
  std::vector<Refused> cases = {
      {"model.ffn=1", "a feed-forward width of 1"},
      {"model.vocab=1", "a vocabulary of 1"},
      {"run.schedule=paper", "run.schedule \"deepspeed\""},
  };
  cases.insert(cases.end(), std::begin(beside_any_axis), std::end(beside_any_axis));
  for (const auto& [set, says] : cases) {
    SCOPED_TRACE(set);
    expect_says(
        message_of<DeckError>([&, s = std::string(set)] { load_deck(path_, {s}); }),
        {"deepspeed.tensor_parallel.autotp_size = 2", "not modelled yet", says, "set it to 1"});
  }
}

// DeepSpeed runs ranks without heads but at stage 3, where it ends with an error.
TEST_F(Axes, HaveRanksBeyondTheHeadsOfKeysUpToStage2) {
  const auto load = [&](const std::string& stage, const std::string& keys) {
    return load_deck(path_, {"deepspeed.zero_optimization.stage=" + stage, keys});
  };
  for (const char* stage : {"0", "1", "2"})
    EXPECT_EQ(load(stage, "model.kv_heads=1").zero.parallel.tensor, 2);
  EXPECT_EQ(load("3", "model.kv_heads=2").zero.parallel.tensor, 2);
  expect_says(message_of<DeckError>([&] { load("3", "model.kv_heads=1"); }),
              {"deepspeed.tensor_parallel.autotp_size = 2", "'status': 'NOT_AVAILABLE'",
               "at most 1, or another stage"});
}

const std::string by_samples = "deepspeed.sequence_parallel_size=2";
const std::string whole_layers = "deepspeed.tensor_parallel={}";

TEST_F(Axes, GiveRanksThatDivideSamplesOneBatchAndFp32Gradients) {
  const Deck deck =
      load_deck(path_, {whole_layers, by_samples, "deepspeed.bf16={\"enabled\": true}"});
  EXPECT_EQ(deck.zero.parallel.sequence, 2);
  EXPECT_EQ(deck.zero.precision.comm, Dtype::fp32);
  EXPECT_EQ(infer_batch(deck.zero, 8, path_).global, 12);
  const Deck whole = load_deck(path_, {whole_layers, by_samples, "deepspeed.train_batch_size=24"});
  EXPECT_EQ(infer_batch(whole.zero, 8, path_).accumulation, 2) << "DeepSpeed counts 4 ranks";
}

TEST_F(Axes, SayWhichTypeOfGradientsHasNoEffect) {
  const auto note = [&](std::vector<std::string> sets) {
    std::string all;
    for (const Finding& f : read_deck(path_, sets, DeckUse::plan).findings)
      all += f.key + ": " + f.text + "\n";
    return all;
  };
  EXPECT_NE(note({whole_layers, by_samples, "deepspeed.communication_data_type=fp16"})
                .find("seq_parallel_communication_data_type replaces it"),
            std::string::npos);
  EXPECT_NE(note({"deepspeed.seq_parallel_communication_data_type=fp16"})
                .find("has an effect only with sequence_parallel_size above 1"),
            std::string::npos);
}

TEST_F(Axes, RefuseByNameWhatIsNotModelledBesideDividedSamples) {
  std::vector<Refused> cases = {
      {"model.heads=3", "3 heads"},
      {"model.sequence=7", "samples of 7 tokens"},
      {"model={\"family\": \"gpt2\", \"layers\": 2, \"hidden\": 32, \"heads\": 4, \"sequence\": 8, "
       "\"vocab\": 64}",
       "queries, keys and values that do not come from three products"},
  };
  cases.insert(cases.end(), std::begin(beside_any_axis), std::end(beside_any_axis));
  for (const auto& [set, says] : cases) {
    SCOPED_TRACE(set);
    std::vector<std::string> sets{whole_layers, by_samples, set};
    if (sets.back() == "model.heads=3")
      sets.push_back("model.kv_heads=1"), sets.push_back("model.hidden=48");
    expect_says(message_of<DeckError>([&] { load_deck(path_, sets); }),
                {"deepspeed.sequence_parallel_size = 2", "not modelled yet", says, "set it to 1"});
  }
  expect_says(message_of<DeckError>([&] {
                load_deck(path_, {whole_layers, by_samples,
                                  "deepspeed.seq_parallel_communication_data_type=bf16"});
              }),
              {"seq_parallel_communication_data_type", "not modelled yet", "fp32"});
  expect_says(message_of<DeckError>([&] {
                load_deck(path_, {whole_layers, "deepspeed.sequence_parallel_size=0"});
              }),
              {"deepspeed.sequence_parallel_size = 0", "at least 1"});
}

const char* const mixture_deck = R"({
    "model": {"family": "decoder", "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 48,
              "sequence": 8, "vocab": 64, "routing": "balanced",
              "moe": {"experts": 6, "per_token": 2, "ffn": 24, "normalised": true}},
    "data": {"source": "uniform"},
    "deepspeed": {"train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 1},
                  "use_data_before_expert_parallelism": true,
                  "expert_parallel": {"enabled": true, "autoep_size": 2}},
    "run": {"steps": 1}})";

TEST_F(Axes, LetRanksThatDivideExpertsHaveBatchesOfTheirOwn) {
  const Deck deck = load_deck(folder_.write("m.json", mixture_deck), {});
  EXPECT_EQ(deck.zero.parallel.expert, 2);
  EXPECT_TRUE(deck.zero.parallel.same_experts_near);
  EXPECT_EQ(infer_batch(deck.zero, 8, path_).global, 24);
}

TEST_F(Axes, SayWhatLearnedRoutingIsTakenToDo) {
  const std::string path = folder_.write("m.json", mixture_deck);
  const auto said = [&](const std::vector<std::string>& sets) {
    std::string text;
    for (const Finding& f : read_deck(path, sets, DeckUse::run).findings)
      if (f.key == "model.routing") text = f.text;
    return text;
  };
  EXPECT_EQ(said({}), "");
  expect_says(said({"model.routing=learned"}), {"model.expert_room = 4", "equally many"});
  expect_says(said({"model.routing=learned", "deepspeed.expert_parallel.enabled=false"}),
              {"memory and messages do not depend on it"});
  expect_says(message_of<DeckError>([&] { load_deck(path, {"model.expert_room=0.5"}); }),
              {"model.expert_room = 0.5", "at least 1"});
}

TEST_F(Axes, RefuseSamplesBesideAnotherAxisInDeepSpeedsWords) {
  const auto refusal = [&](const std::string& path, std::vector<std::string> sets) {
    sets.push_back(by_samples);
    return message_of<DeckError>([&] { load_deck(path, sets); });
  };
  expect_says(refusal(path_, {}),
              {"deepspeed.sequence_parallel_size = 2", "Data inconsistency within the TP group"});
  expect_says(refusal(folder_.write("m.json", mixture_deck), {}),
              {"deepspeed.sequence_parallel_size = 2",
               "AutoEP does not currently support tensor model parallelism from mpu"});
}

const std::vector<std::string> folded{
    R"(deepspeed.tensor_parallel={"autotp_size": 2, "preset_model": "mixtral"})",
    "deepspeed.use_data_before_expert_parallelism=false"};

TEST_F(Axes, TakeLayersAndExpertsByThePresetForMixtures) {
  const std::string path = folder_.write("m.json", mixture_deck);
  const Deck deck = load_deck(path, folded);
  EXPECT_EQ(deck.zero.parallel.tensor, 2);
  EXPECT_EQ(deck.zero.parallel.expert, 2);
  EXPECT_EQ(infer_batch(deck.zero, 8, path).global, 12) << "4 groups with data of their own";
  const std::vector<Refused> cases = {
      {R"(deepspeed.tensor_parallel={"autotp_size": 2})", "unsupported partition style"},
      {R"(deepspeed.tensor_parallel={"autotp_size": 2, "preset_model": "llama"})",
       "unsupported partition style"},
      {"deepspeed.expert_parallel.preset_model=qwen3_moe", "tensor_parallel.preset_model"},
      {"deepspeed.use_data_before_expert_parallelism=true", "does not support it beside"},
      {"model.norm={\"of_q_and_k\": \"head\"}", "blocks of another kind than Mixtral's"},
      {"model.moe.shared_ffn=16", "with a shared one"},
      {"deepspeed.zero_optimization.offload_optimizer={\"device\": \"cpu\"}",
       "offload with AutoEP+AutoTP folding is not validated yet"},
      {"model.kv_heads=1", "1 heads of keys and values"},
      {R"(deepspeed={"train_micro_batch_size_per_gpu": 3, "bf16": {"enabled": true},
          "zero_optimization": {"stage": 0}, "gradient_clipping": 1,
          "tensor_parallel": {"autotp_size": 2, "preset_model": "mixtral"},
          "expert_parallel": {"enabled": true, "autoep_size": 2}})",
       "torch_adam"},
  };
  for (const auto& [set, says] : cases) {
    SCOPED_TRACE(set);
    std::vector<std::string> sets = folded;
    sets.emplace_back(set);
    expect_says(message_of<DeckError>([&] { load_deck(path, sets); }), {says});
  }
}

TEST_F(Axes, TakeCheckpoints) {
  const std::string section = R"(checkpoint={"dir": "c", "every": 1, "resume": "latest"})";
  const std::string mixture = folder_.write("m.json", mixture_deck);
  EXPECT_EQ(load_deck(path_, {section}).checkpoint.every, 1);
  EXPECT_EQ(load_deck(path_, {whole_layers, by_samples, section}).checkpoint.every, 1);
  EXPECT_EQ(load_deck(mixture, {section}).checkpoint.every, 1);
}

TEST_F(Axes, RefuseByNameWhatIsNotModelledBesideDividedExperts) {
  const std::string path = folder_.write("m.json", mixture_deck);
  std::vector<Refused> cases = {
      {"deepspeed.expert_parallel.autoep_size=4", "6 experts per layer"},
      {"model.moe.bias=true", "experts with biases"},
      {"model.moe.gate={\"limit\": 7}", "whose gate has a limit"},
      {"model.moe.interleaved=true", "laid out as gpt_oss"},
      {"model.moe.balance_loss=0.01", "a loss that balances experts"},
      {"run.compute=none", "run.compute"},
  };
  for (const auto& [set, says] : cases) {
    SCOPED_TRACE(set);
    expect_says(message_of<DeckError>([&, s = std::string(set)] { load_deck(path, {s}); }),
                {"not modelled yet", says});
  }
  expect_says(message_of<DeckError>(
                  [&] { load_deck(path, {"deepspeed.zero_optimization.reduce_scatter=false"}); }),
              {"reduce_scatter = false", "set it to true"});
  for (const auto& [set, says] : std::vector<Refused>{
           {"deepspeed.zero_optimization.stage3_use_all_reduce_for_fetch_params=true",
            "use_all_reduce_for_fetch_params"},
           {"deepspeed.zero_optimization.leaf_module={\"classes\": [\"AutoEPMoELayer\"]}",
            "leaf_module"}}) {
    SCOPED_TRACE(set);
    expect_says(message_of<DeckError>([&, s = std::string(set)] {
                  load_deck(path, {"deepspeed.zero_optimization.stage=3", s});
                }),
                {"not modelled yet", says});
  }
  const std::string whole = "deepspeed.zero_optimization.stage=0";
  expect_says(message_of<DeckError>([&] { load_deck(path, {whole}); }),
              {"deepspeed.gradient_clipping = 1", "not modelled yet", "averages norms"});
  EXPECT_NO_THROW(load_deck(path, {whole, "deepspeed.gradient_clipping=0",
                                   "deepspeed.zero_optimization.reduce_scatter=false"}));
}

// The table of keys says which of them would make AutoEP find other modules, or route otherwise.
TEST_F(Axes, RefuseWhatWouldDivideOtherExperts) {
  const std::string path = folder_.write("m.json", mixture_deck);
  const auto found = std::find_if(ds_sections().begin(), ds_sections().end(),
                                  [](const Section& s) { return s.path == "expert_parallel"; });
  ASSERT_NE(found, ds_sections().end());
  int refused = 0;
  for (const Key& key : found->keys) {
    if (key.effect != KeyEffect::not_modelled) continue;
    ++refused;
    const std::string name = "deepspeed.expert_parallel." + std::string(key.name);
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(load_deck(path, {name + "=" + key.default_value().dump()}));
    expect_says(message_of<DeckError>([&] { load_deck(path, {name + "=\"other\""}); }),
                {name + " = \"other\"", "not modelled yet", "remove the key"});
    EXPECT_NO_THROW(
        load_deck(path, {"deepspeed.expert_parallel.enabled=false", name + "=\"other\""}));
  }
  EXPECT_EQ(refused, 21);
}

}  // namespace
}  // namespace shardmark::test::axes_test
