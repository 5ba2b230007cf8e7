// SPDX-License-Identifier: Apache-2.0
// One bad deck a rule: the good deck, changed by `--set` or replaced, must be refused in one line
// that names file, key, value and remedy.
#include "scratch.hpp"
#include <fmt/format.h>

namespace shardmark::test {
namespace {

struct BadValue {
  const char* set;                // key=value
  std::vector<std::string> says;  // beside file and key
};

const std::vector<BadValue>& bad_values() {
  static const std::vector<BadValue> list = {
      // unknown keys, with the nearest known one
      {"modle=1", {"unknown key", "did you mean \"model\""}},
      {"model.layer=4", {"= 4", "unknown key", "did you mean \"layers\""}},
      {"model.kv_heads=4", {"unknown key"}},
      {"data.sauce=1", {"did you mean \"source\""}},
      {"run.step=1", {"did you mean \"steps\""}},
      {"run.zzzzzz=1", {"unknown key", "known here", "warmup"}},
      {"comm.timeout=1", {"did you mean \"timeout_s\""}},
      {"memory.device_gb=1", {"did you mean \"device_gib\""}},
      {"expect.los=1", {"did you mean \"loss\""}},
      // ill-typed values
      {"name=3", {"= 3", "must be a string"}},
      {"model=3", {"= 3", "must be an object"}},
      {"model.layers=\"4\"", {"= \"4\"", "must be an integer"}},
      {"model.layers=2.5", {"= 2.5", "must be an integer"}},
      {"model.tied_head=1", {"= 1", "must be true or false"}},
      {"model.family=3", {"must be one of \"gpt2\", \"list\""}},
      {"run=[]", {"must be an object"}},
      {"run.steps=1O", {"= \"1O\"", "must be an integer"}},
      {"comm.timeout_s=soon", {"= \"soon\"", "must be a number"}},
      {"deepspeed=3", {"= 3", "must be an object"}},
      // bounds
      {"model.layers=0", {"= 0", "from 1 to 100000"}},
      {"model.layers=-1", {"= -1", "from 1"}},
      {"model.hidden=0", {"= 0", "from 1"}},
      {"model.hidden=99999999999999999999", {"must be an integer from 1"}},
      {"model.vocab=1e30", {"must be an integer from 1"}},
      {"run.steps=0", {"= 0", "from 1"}},
      {"run.warmup=-1", {"= -1", "from 0"}},
      {"run.seed=-1", {"from 0 to 4294967295"}},
      {"run.seed=4294967296", {"from 0 to 4294967295"}},
      {"comm.timeout_s=0", {"= 0", "above 0"}},
      {"comm.delay_ms=-1", {"= -1", "at least 0"}},
      {"memory.device_gib=0", {"= 0", "above 0"}},
      {"memory.allowance_mib=-5", {"at least 0"}},
      {"expect.tolerance=-1", {"at least 0"}},
      // words
      {"model.family=gpt3", {"= \"gpt3\"", "did you mean \"gpt2\""}},
      {"data.source=flie", {"did you mean \"file\""}},
      {"run.reductions=orderd", {"did you mean \"ordered\""}},
      // sections that must agree
      {"model.heads=5", {"= 5", "must divide model.hidden = 32"}},
      {"data={\"source\": \"file\"}", {"data.path", "missing"}},
      {"data={\"source\": \"file\", \"path\": \"none.txt\"}", {"none.txt", "No such file"}},
      {"data={\"source\": \"file\", \"path\": \".\"}", {"not a regular file"}},
      {"data={}", {"data.source", "missing"}},
      // what later versions will do
      {"model.family=llama", {"= \"llama\"", "not modelled yet", "\"gpt2\""}},
      {"run.schedule=deepspeed", {"not modelled yet", "use one of \"paper\""}},
      {"run.memory_mode=pooled", {"not modelled yet", "\"strict\""}},
      {"run.compute=gemm", {"not modelled yet", "\"train\", \"none\""}},
      {"run.activation_checkpointing=true", {"= true", "not modelled yet", "false"}},
      {"comm.backend=nccl", {"not modelled yet", "\"mpi\""}},
      {"checkpoint.dir=x", {"checkpoint", "not modelled yet", "remove"}},
      // the DeepSpeed config, as DeepSpeed judges it
      {"deepspeed.zero_optimization.stage=4", {"= 4", "must be 0, 1, 2 or 3"}},
      {"deepspeed.zero_optimization.stage=two", {"= \"two\"", "must be 0, 1, 2 or 3"}},
      {"deepspeed.zero_optimization.reduce_bucket_sise=1", {"did you mean \"reduce_bucket_size\""}},
      {"deepspeed.zero_optimization.reduce_bucket_size=0", {"= 0", "at least 1"}},
      {"deepspeed.zero_optimization.reduce_bucket_size=1000.5", {"must be an integer"}},
      {"deepspeed.zero_optimization.overlap_comm=maybe", {"must be true, false or null"}},
      {"deepspeed.optimizer.params.momentum=0.9", {"unknown key"}},
      {"deepspeed.optimizer.params.betas=[0.9]", {"two numbers"}},
      {"deepspeed.optimizer.params.lr=-1", {"= -1", "at least 0"}},
      {"deepspeed.optimizer.params.lr=auto", {"= \"auto\"", "Hugging Face"}},
      {"deepspeed.optimizer.params.max_grad_norm=1", {"removed"}},
      {"deepspeed.train_micro_batch_size_per_gpu=0", {"= 0", "at least 1"}},
      {"deepspeed.train_micro_batch_size_per_gpu=auto", {"= \"auto\"", "integer"}},
      {"deepspeed.gradient_accumulation_steps=1.5", {"= 1.5", "integer"}},
      {"deepspeed.optimizer.type=SGD", {"= \"SGD\"", "not modelled yet", "AdamW"}},
      {"deepspeed.optimizer.params.adam_w_mode=false", {"not modelled yet"}},
      {"deepspeed.fp16.enabled=true", {"= true", "not modelled yet"}},
      {"deepspeed.bf16.enabled=true", {"= true", "not modelled yet"}},
      {"deepspeed.bfloat16.enabled=true", {"= true", "not modelled yet"}},
      {"deepspeed.scheduler.type=WarmupLR", {"not modelled yet"}},
      {"deepspeed.communication_data_type=fp16", {"not modelled yet"}},
      {"deepspeed.data_types.grad_accum_dtype=bf16", {"not modelled yet"}},
      {"deepspeed.zero_optimization.offload_optimizer.device=cpu", {"not modelled yet"}},
      {"deepspeed.zero_optimization.offload_param.device=cpu", {"not modelled yet"}},
      {"deepspeed.zero_optimization.zenflow={}", {"= {}", "not modelled yet"}},
      {"deepspeed.zero_optimization.cpu_offload=true", {"not modelled yet"}},
      {"deepspeed.zero_optimization.zero_hpz_partition_size=2", {"= 2", "not modelled yet"}},
      {"deepspeed.zero_optimization.zero_quantized_weights=true", {"not modelled yet"}},
      {"deepspeed.amp.enabled=true", {"deepspeed.amp", "removed"}},
  };
  return list;
}

TEST(BadDeck, every_bad_value_is_refused_with_file_key_value_and_remedy) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  for (const BadValue& bad : bad_values()) {
    SCOPED_TRACE(bad.set);
    const std::string set = bad.set;
    const std::string message = message_of<DeckError>([&] { load_deck(path, {set}); });
    expect_says(message, bad.says);
    expect_says(message, {path + " (--set)", set.substr(0, set.find_first_of(".="))});
    if (message.find("missing") == std::string::npos && message.find(" {") == std::string::npos)
      expect_says(message, {" = "});
  }
}

TEST(BadDeck, predivide_and_prescale_are_refused_where_deepspeed_accepts_them) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const std::string stage1 = "deepspeed.zero_optimization.stage=1";
  for (const char* set :
       {"deepspeed.prescale_gradients=true", "deepspeed.gradient_predivide_factor=2.0"}) {
    SCOPED_TRACE(set);
    expect_says(message_of<DeckError>([&] {
                  load_deck(path, {stage1, set});
                }),
                {"not modelled yet"});
    expect_says(message_of<DeckError>([&] { load_deck(path, {set}); }),
                {"stage 3 with reduce_scatter"});
  }
}

TEST(BadDeck, what_is_missing_is_named) {
  const ScratchFolder folder;
  for (const char* key : {"layers", "hidden", "heads", "sequence", "vocab", "family"}) {
    std::string text = good_deck;
    const auto at = text.find(fmt::format("\"{}\"", key));
    const auto end = std::min(text.find(',', at), text.find('}', at));
    const bool last = text[end] == '}';
    text.erase(at, end - at + (last ? 0 : 1));
    if (last) text.erase(text.rfind(',', at), 1);
    expect_says(message_of<DeckError>([&] { load_deck(folder.write("d.json", text), {}); }),
                {"d.json", std::string("model.") + key, "missing", "give"});
  }
  const std::string no_model = folder.write("d.json", R"({"run": {"steps": 1}})");
  expect_says(message_of<DeckError>([&] { load_deck(no_model, {}); }), {"d.json: model: missing"});
}

TEST(BadDeck, a_deck_that_is_good_to_plan_may_lack_what_a_run_needs) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", R"({
      "model": {"family": "gpt2", "layers": 1, "hidden": 4, "heads": 1, "sequence": 4, "vocab": 8},
      "deepspeed": {"train_batch_size": 4}})");
  EXPECT_NO_THROW(read_deck(path, {}, DeckUse::plan));
  const auto run = [&](std::vector<std::string> sets) {
    return message_of<DeckError>([&] { load_deck(path, sets); });
  };
  expect_says(run({}), {"d.json", "run.steps", "missing"});
  expect_says(run({"run.steps=1"}), {"d.json", "data", "missing", "markov"});
  EXPECT_NO_THROW(load_deck(path, {"run.steps=1", "run.compute=none"}));
}

TEST(BadDeck, a_deck_without_any_batch_size_says_which_key) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", R"({
      "model": {"family": "gpt2", "layers": 1, "hidden": 4, "heads": 1, "sequence": 4,
                "vocab": 8}})");
  expect_says(
      message_of<DeckError>([&] { read_deck(path, {}, DeckUse::plan); }),
      {"d.json", "deepspeed", "missing", "train_batch_size", "train_micro_batch_size_per_gpu"});
  const Deck deck = read_deck(path, {"deepspeed.train_batch_size=4"}, DeckUse::plan).deck;
  EXPECT_EQ(deck.zero.stage, 0);
}

TEST(BadDeck, file_data_must_be_long_enough_and_the_vocabulary_hold_bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const std::string source = "data.source=file", text = "data.path=t.txt";
  folder.write("t.txt", std::string(17, 'x'));  // sequence + 1
  expect_says(message_of<DeckError>([&] {
                load_deck(path, {source, text});
              }),
              {"t.txt", "17 bytes", "model.sequence + 1 = 17", "longer file"});
  folder.write("t.txt", std::string(18, 'x'));
  EXPECT_EQ(load_deck(path, {source, text}).data.path, folder.path("t.txt"));
  expect_says(message_of<DeckError>([&] {
                load_deck(path, {source, text, "model.vocab=255"});
              }),
              {"model.vocab = 255", "at least 256", "bytes"});
}

TEST(BadDeck, counts_beyond_63_bits_are_refused) {
  const ScratchFolder folder;
  const std::string path = folder.write("d.json", good_deck);
  const std::vector<std::vector<std::string>> huge = {
      {"model.hidden=2147483647", "model.heads=1", "model.layers=100000"},
      {"model.hidden=2147483647", "model.heads=1", "model.vocab=2147483647"},
      {"deepspeed.train_micro_batch_size_per_gpu=9000000000000000000"},
  };
  for (const auto& sets : huge)
    expect_says(message_of<DeckError>([&] { load_deck(path, sets); }),
                {path, "63 bits", "smaller"});
}

TEST(BadDeck, bad_list_models) {
  const ScratchFolder folder;
  const std::string head =
      R"({"run": {"steps": 1, "compute": "none"}, "deepspeed": {"train_batch_size": 2},
      "model": {"family": "list", "modules": )";
  const struct {
    const char* model;
    std::vector<std::string> says;
  } cases[] = {
      {"3", {"model.modules", "= 3", "array"}},
      {"[]", {"model.modules", "array of 1"}},
      {R"([{"name": "a", "numels": []}])", {"no module has parameters"}},
      {R"([{"numels": [1]}])", {"model.modules.0.name", "missing"}},
      {R"([{"name": "a"}])", {"model.modules.0.numels", "missing"}},
      {R"([{"name": "a", "numels": [0]}])", {"model.modules.0.numels.0 = 0", "from 1"}},
      {R"([{"name": "a", "numels": [1], "numel": 2}])", {"did you mean \"numels\""}},
      {R"([{"name": "a", "numels": [1]}, {"name": "a", "numels": [2]}])",
       {"modules.1.name", "differ"}},
      {R"([{"name": "a", "numels": [1]}], "tied": [["b", "a"]])", {"tied.0", "no module", "\"b\""}},
      {R"([{"name": "a", "numels": [1]}, {"name": "b", "numels": [2]}], "tied": [["b", "a"]])",
       {"same numels"}},
      {R"([{"name": "a", "numels": [1]}, {"name": "b", "numels": [1]}], "tied": [["a", "b"]])",
       {"owner must be listed before"}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["g+a"])", {"visits.0", "\"g+a\"", "f+"}},
      {R"([{"name": "a", "numels": [1]}], "visits": ["f+b"])", {"visits.0", "no module"}},
      {R"([{"name": "a", "numels": [1, 2]}], "gradient_ready_order": [1, 1])", {"twice"}},
      {R"([{"name": "a", "numels": [1, 2]}], "gradient_ready_order": [1])", {"1 of 2"}},
      {R"([{"name": "a", "numels": [1, 2]}], "param_groups": [[0], [2]])", {"= 2", "from 0 to 1"}},
      {R"([{"name": "a", "numels": [1152921504606846976, 1152921504606846976]}])", {"63 bits"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.model);
    const std::string path = folder.write("l.json", head + c.model + "}}");
    expect_says(message_of<DeckError>([&] { load_deck(path, {}); }), c.says);
  }
}

TEST(BadDeck, a_list_cannot_be_trained_but_planned) {
  const ScratchFolder folder;
  const std::string path = folder.write("l.json", R"({"deepspeed": {"train_batch_size": 2},
      "model": {"family": "list", "modules": [{"name": "a", "numels": [3]}]},
      "run": {"steps": 1}})");
  expect_says(message_of<DeckError>([&] { load_deck(path, {}); }), {"run.compute", "list", "none"});
  EXPECT_NO_THROW(read_deck(path, {}, DeckUse::plan));
}

}  // namespace
}  // namespace shardmark::test
