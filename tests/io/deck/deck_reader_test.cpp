// SPDX-License-Identifier: Apache-2.0
// A sound deck: every key has its effect, and every absent key has the documented default.
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deck_reader_test {
namespace {

TEST(Deck, every_key_arrives) {
  const ScratchFolder folder;
  folder.write("t.txt", std::string(100, 'x'));
  const std::string path = folder.write("d.json", R"({
    "name": "all",
    "model": {"family": "gpt2", "layers": 3, "hidden": 48, "heads": 6, "sequence": 12, "vocab": 300,
              "tied_head": true},
    "data": {"source": "file", "path": "t.txt", "seed": 5},
    "deepspeed": {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 2,
                  "gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
                  "optimizer": {"type": "adam", "params": {"lr": 1, "betas": [0.1, 0.2], "eps": 0.3,
                                                           "weight_decay": 0.4}},
                  "zero_optimization": {"stage": 2}},
    "run": {"steps": 50, "warmup": 5, "seed": 9, "schedule": "paper", "compute": "train",
            "reductions": "ordered", "memory_mode": "strict", "activation_checkpointing": false},
    "comm": {"backend": "mpi", "timeout_s": 30, "delay_ms": 50},
    "memory": {"device_gib": 16, "host_gib": 0.5, "allowance_mib": 64},
    "expect": {"loss": 2.31, "tolerance": 0.02, "loss_drop": 0.5,
               "train_batch_size": 8, "steps": 55}})");
  const Deck d = load_deck(path, {});
  EXPECT_EQ(d.path, path);
  EXPECT_EQ(d.name, "all");
  EXPECT_EQ(d.model.family, Family::gpt2);
  EXPECT_EQ(d.model.layers, 3);
  EXPECT_EQ(d.model.hidden, 48);
  EXPECT_EQ(d.model.heads, 6);
  EXPECT_EQ(d.model.sequence, 12);
  EXPECT_EQ(d.model.vocab, 300);
  EXPECT_TRUE(d.model.tied_head);
  EXPECT_EQ(d.data.source, DataSource::file);
  EXPECT_EQ(d.data.path, folder.path("t.txt"));
  EXPECT_EQ(d.data.seed, 5u);
  EXPECT_EQ(d.zero.stage, 2);
  EXPECT_EQ(d.zero.train_batch_size, 24);
  EXPECT_EQ(d.zero.micro_batch_size, 2);
  EXPECT_EQ(d.zero.accumulation_steps, 4);
  EXPECT_EQ(d.zero.gradient_clipping, 0.5);
  EXPECT_EQ(d.zero.optimizer.lr, 1);
  EXPECT_EQ(d.zero.optimizer.beta1, 0.1);
  EXPECT_EQ(d.zero.optimizer.beta2, 0.2);
  EXPECT_EQ(d.zero.optimizer.eps, 0.3);
  EXPECT_EQ(d.zero.optimizer.weight_decay, 0.4);
  EXPECT_EQ(d.run.steps, 50);
  EXPECT_EQ(d.run.warmup, 5);
  EXPECT_EQ(d.run.seed, 9u);
  EXPECT_EQ(d.run.schedule, Schedule::paper);
  EXPECT_EQ(d.run.compute, Compute::train);
  EXPECT_EQ(d.run.reductions, Reductions::ordered);
  EXPECT_EQ(d.run.memory_mode, MemoryMode::strict);
  EXPECT_EQ(d.comm.backend, Backend::mpi);
  EXPECT_EQ(d.comm.timeout_s, 30);
  EXPECT_EQ(d.comm.delay_ms, 50);
  EXPECT_EQ(d.memory.budget_gib[0], 16);
  EXPECT_EQ(d.memory.budget_gib[1], 0.5);
  EXPECT_EQ(d.memory.allowance_mib, 64);
  EXPECT_EQ(d.expect.loss, 2.31);
  EXPECT_EQ(d.expect.tolerance, 0.02);
  EXPECT_EQ(d.expect.loss_drop, 0.5);
  EXPECT_EQ(d.expect.train_batch_size, 8);
  EXPECT_EQ(d.expect.steps, 55);
}

TEST(Deck, absent_keys_take_the_documented_defaults) {
  const ScratchFolder folder;
  const std::string path = folder.write("small.json", R"({
      "model": {"family": "gpt2", "layers": 1, "hidden": 4, "heads": 1, "sequence": 4, "vocab": 8},
      "data": {"source": "uniform"}, "run": {"steps": 1, "seed": 77},
      "deepspeed": {"train_batch_size": 4}})");
  const Deck d = load_deck(path, {});
  EXPECT_EQ(d.name, "small");
  EXPECT_FALSE(d.model.tied_head);
  EXPECT_EQ(d.data.seed, 77u) << "data.seed follows run.seed";
  EXPECT_EQ(d.zero.stage, 0);
  EXPECT_EQ(d.zero.gradient_clipping, 1.0);
  EXPECT_EQ(d.zero.optimizer.lr, 1e-3);
  EXPECT_EQ(d.zero.optimizer.beta1, 0.9);
  EXPECT_EQ(d.zero.optimizer.beta2, 0.999);
  EXPECT_EQ(d.zero.optimizer.eps, 1e-8);
  EXPECT_EQ(d.zero.optimizer.weight_decay, 0.01);
  EXPECT_FALSE(d.zero.micro_batch_size || d.zero.accumulation_steps);
  EXPECT_EQ(d.run.warmup, 0);
  EXPECT_EQ(d.run.schedule, Schedule::deepspeed);
  EXPECT_FALSE(d.run.activation_checkpointing);
  EXPECT_EQ(d.run.compute, Compute::train);
  EXPECT_EQ(d.run.reductions, Reductions::native);
  EXPECT_EQ(d.run.memory_mode, MemoryMode::pooled);
  EXPECT_EQ(d.comm.backend, Backend::automatic);
  EXPECT_EQ(d.comm.timeout_s, 600);
  EXPECT_EQ(d.comm.delay_ms, 0);
  EXPECT_FALSE(d.memory.budget_gib[0] || d.memory.budget_gib[1]);
  EXPECT_FALSE(d.memory.allowance_mib);
  EXPECT_FALSE(d.expect.loss);
  EXPECT_EQ(d.expect.loss_drop, 0);
  EXPECT_EQ(load_deck(path, {"run.seed=78"}).data.seed, 78u);
}

TEST(Deck, a_list_arrives_in_registration_order) {
  const ScratchFolder folder;
  const std::string path = folder.write("l.json", R"({
      "model": {"family": "list",
                "modules": [{"name": "", "numels": []}, {"name": "wte", "numels": [20]},
                            {"name": "h", "numels": []}, {"name": "h.0", "numels": [6, 3]},
                            {"name": "head", "numels": [20]}],
                "visits": ["f+", "f+wte", "f-wte", "f+h.0", "f+head", "b+head", "b+h.0", "b+wte"],
                "gradient_ready_order": [2, 1, 0],
                "param_groups": [[0, 2], [1]], "tied": [["head", "wte"]]},
      "data": {"source": "file", "path": "unused.txt"},
      "run": {"steps": 2, "compute": "none"}, "deepspeed": {"train_batch_size": 2}})");
  const Deck d = load_deck(path, {});
  ASSERT_EQ(d.model.modules.size(), 5u);
  EXPECT_EQ(d.model.modules[3].name, "h.0");
  EXPECT_EQ(d.model.modules[3].numels, (std::vector<std::int64_t>{6, 3}));
  ASSERT_EQ(d.model.tied.size(), 1u);
  EXPECT_EQ(d.model.tied[0], std::pair(std::string("head"), std::string("wte")));
  EXPECT_EQ(d.run.compute, Compute::none);
  ASSERT_EQ(d.model.visits.size(), 8u);
  EXPECT_EQ(d.model.visits[0].kind, VisitKind::pre_forward);
  EXPECT_EQ(d.model.visits[0].module, root_module) << "the root, though it is listed";
  EXPECT_EQ(d.model.visits[2].kind, VisitKind::post_forward);
  EXPECT_EQ(d.model.visits[2].module, 1);
  EXPECT_EQ(d.model.visits[5].kind, VisitKind::pre_backward);
  EXPECT_EQ(d.model.visits[5].module, 4);
  EXPECT_EQ(d.model.gradient_ready_order, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(d.model.param_groups, (std::vector<std::vector<int>>{{0, 2}, {1}}));
}

TEST(Deck, a_llama_arrives) {
  const ScratchFolder folder;
  const std::string path = folder.write("l.json", R"({
      "model": {"family": "llama", "layers": 2, "hidden": 24, "heads": 6, "kv_heads": 2, "ffn": 64,
                "sequence": 16, "vocab": 100},
      "run": {"steps": 2, "compute": "none"}, "deepspeed": {"train_batch_size": 2}})");
  const Deck d = load_deck(path, {});
  EXPECT_EQ(d.model.family, Family::llama);
  EXPECT_EQ(d.model.kv_heads, 2);
  EXPECT_EQ(d.model.ffn, 64);
  EXPECT_FALSE(d.model.tied_head);
}

TEST(Deck, the_hash_sees_values_and_nothing_else) {
  const ScratchFolder folder;
  const std::string one = folder.write("a.json", good_deck);
  std::string spaced = good_deck;
  spaced.replace(spaced.find("\"steps\": 5"), 10, "\"steps\" :  5 // five\n");
  const std::string two = folder.write("b.json", spaced);
  const auto hash = [](const std::string& path, std::vector<std::string> sets) {
    return read_deck(path, sets, DeckUse::run).hash;
  };
  EXPECT_EQ(hash(one, {}).size(), 16u);
  EXPECT_EQ(hash(one, {}), hash(two, {}));
  EXPECT_EQ(hash(one, {}), hash(one, {"run.steps=5"}));
  EXPECT_NE(hash(one, {}), hash(one, {"run.steps=6"}));
}

TEST(Deck, a_wrong_config_file_is_named_by_its_own_name) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  folder.write("ds.json", R"({"train_batch_size": 4, "zero_optimization": {"stage": 7}})");
  expect_says(message_of<DeckError>([&] { load_deck(path, {"deepspeed=ds.json"}); }),
              {folder.path("ds.json"), "zero_optimization.stage = 7", "0, 1, 2 or 3"});
  expect_says(message_of<DeckError>([&] {
                load_deck(path, {"deepspeed=ds.json", "deepspeed={\"zero_optimization\": 5}"});
              }),
              {path + " (--set): deepspeed.zero_optimization = 5"});
  expect_says(message_of<DeckError>([&] { load_deck(path, {"deepspeed=gone.json"}); }),
              {folder.path("gone.json"), "no such file"});
}

}  // namespace
}  // namespace shardmark::test::deck_reader_test
