// SPDX-License-Identifier: Apache-2.0
// The trainer's own arguments in the section `hf`: each has an effect, is listed as without one, or
// is refused by name; and the length of the sequence comes from where somebody states it.
#include <algorithm>

#include <io/deck/deck_findings.hpp>
#include <io/hf/hf_arguments.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::trainer_arguments_test {
namespace {

constexpr const char* llama_config = R"({"model_type": "llama", "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 131072})";

class TrainerArguments : public ::testing::Test {
 protected:
  TrainerArguments() { folder_.write("config.json", llama_config); }
  LoadedDeck read(std::vector<std::string> sets) const {
    sets.insert(sets.begin(), {"deepspeed.train_micro_batch_size_per_gpu=8",
                               "deepspeed.gradient_accumulation_steps=1",
                               "deepspeed.optimizer.params={\"lr\": 5e-5, \"weight_decay\": 0}"});
    return read_deck(folder_.write("d.json", good_deck), sets, DeckUse::plan);
  }
  LoadedDeck read_config(std::vector<std::string> sets) const {
    sets.insert(sets.begin(), "model=\"config.json\"");
    return read(std::move(sets));
  }
  template<class Read>
  std::string message(Read read) const {
    return message_of<DeckError>(read);
  }
  static bool found(const LoadedDeck& loaded, FindingKind kind, const std::string& key) {
    return std::any_of(loaded.findings.begin(), loaded.findings.end(),
                       [&](const Finding& f) { return f.kind == kind && f.key == key; });
  }
  ScratchFolder folder_;
};

TEST_F(TrainerArguments, checkpointing_switches_the_runs_own_key) {
  for (const std::string name : {"gradient_checkpointing", "activation_checkpointing"}) {
    const LoadedDeck on = read({"hf." + name + "=true"});
    EXPECT_TRUE(on.deck.run.activation_checkpointing);
    EXPECT_FALSE(on.deck.run.reentrant) << "transformers 5 asks for the newer kind";
    EXPECT_TRUE(found(on, FindingKind::derived, "run.activation_checkpointing"));
    EXPECT_FALSE(read({"hf." + name + "=false"}).deck.run.activation_checkpointing);
    const std::string keywords = "hf." + name + "_kwargs={\"use_reentrant\": true}";
    EXPECT_TRUE(read({"hf." + name + "=true", keywords}).deck.run.reentrant);
    expect_says(message([&] {
                  read({"hf." + name + "=true", "run.activation_checkpointing=false"});
                }),
                {"hf." + name, "run.activation_checkpointing is false"});
  }
  expect_says(message([&] {
                read({"hf.activation_checkpointing=true",
                      "hf.activation_checkpointing_kwargs={\"offload\": true}"});
              }),
              {"offload = true", "not modelled yet"});
}

TEST_F(TrainerArguments, each_is_known_and_none_is_silent) {
  EXPECT_GT(hf_argument_table().size(), 140u);
  for (const HfArgument& row : hf_argument_table()) {
    SCOPED_TRACE(std::string(row.name));
    const std::string key = "hf." + std::string(row.name);
    if (row.effect == HfEffect::none)
      EXPECT_TRUE(found(read({key + "=\"x\""}), FindingKind::no_effect, key));
    else if (row.effect == HfEffect::refused)
      expect_says(message([&] { read({key + "=\"x\""}); }), {key, "not modelled yet"});
  }
  expect_says(message([&] { read({"hf.gradient_checkpoint=true"}); }),
              {"unknown key", "gradient_checkpointing"});
}

TEST_F(TrainerArguments, the_optimizer_is_adamw_or_that_of_the_config) {
  EXPECT_TRUE(found(read({"hf.optim=adafactor"}), FindingKind::no_effect, "hf.optim"));
  const std::string none = "deepspeed={\"train_batch_size\": \"auto\", \"zero_optimization\": {}}";
  EXPECT_NO_THROW(read({none, "hf.optim=adamw_torch_fused"}));
  expect_says(message([&] {
                read({none, "hf.optim=adafactor"});
              }),
              {"hf.optim = \"adafactor\"", "not modelled yet"});
}

TEST_F(TrainerArguments, a_sequence_that_nothing_states_is_named_with_its_remedies) {
  const LoadedDeck assumed = read_config({});
  EXPECT_EQ(assumed.deck.model.sequence, 131072);
  EXPECT_TRUE(found(assumed, FindingKind::assumed, "model.sequence"));
  ASSERT_EQ(assumed.deck.assumptions.size(), 1u);
  expect_says(assumed.deck.assumptions[0],
              {"model.sequence = 131072", "max_position_embeddings", "upper bound", "--set",
               "\"config\": \"config.json\"", "hf.max_length"});
  expect_says(note_lines(assumed.deck).substr(0, 40), {"note: model.sequence = 131072"});
}

TEST_F(TrainerArguments, a_stated_sequence_is_no_assumption) {
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{"model.sequence=512"},
        {"hf.max_length=512"},
        {"hf.max_seq_length=512"},
        {"hf.model_max_length=512"},
        {"hf.max_length=512", "hf.model_max_length=512", "model.sequence=512"}}) {
    const LoadedDeck stated = read_config(sets);
    EXPECT_EQ(stated.deck.model.sequence, 512);
    EXPECT_TRUE(stated.deck.assumptions.empty());
  }
  EXPECT_EQ(
      read_config({"model={\"config\": \"config.json\", \"sequence\": 512}"}).deck.model.sequence,
      512);
  EXPECT_TRUE(read({}).deck.assumptions.empty()) << "a family whose section states it";
}

TEST_F(TrainerArguments, two_lengths_contradict_each_other) {
  expect_says(message([&] {
                read_config({"hf.max_length=512", "hf.max_seq_length=256"});
              }),
              {"hf.max_seq_length = 256", "hf.max_length is 512"});
  expect_says(message([&] {
                read_config({"hf.max_length=512", "model.sequence=256"});
              }),
              {"hf.max_length = 512", "model.sequence is 256"});
  expect_says(message([&] { read({"hf.max_length=512"}); }), {"model.sequence is 16"});
  expect_says(message([&] { read_config({"hf.max_length=0"}); }), {"= 0", "from 1"});
}

}  // namespace
}  // namespace shardmark::test::trainer_arguments_test
