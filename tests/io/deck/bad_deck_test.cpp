// SPDX-License-Identifier: Apache-2.0
// One bad deck per rule: the good deck, changed by `--set` or replaced, must be refused in one line
// that names file, key, value and remedy.
#include <fmt/format.h>

#include <tests/support/io_scratch.hpp>

namespace shardmark::test::bad_deck_test {
namespace {

struct BadValue {
  const char* set;                // key=value
  std::vector<std::string> says;  // what the message contains besides file and key
};

const std::vector<BadValue>& bad_values() {
  static const std::vector<BadValue> list = {
      // unknown keys, with the nearest known one
      {"modle=1", {"unknown key", "did you mean \"model\""}},
      {"stage=2", {"unknown key: did you mean \"deepspeed.zero_optimization.stage\"?"}},
      {"zero_optimization.stage=2", {"did you mean \"deepspeed.zero_optimization\"?"}},
      {"reductions=ordered", {"did you mean \"run.reductions\"?"}},
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
      {"model.family=3", {"must be one of \"gpt2\", \"llama\", \"list\""}},
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
      {"run.time_limit_s=0", {"= 0", "above 0"}},
      {"run.time_limit_s=1h", {"= \"1h\"", "must be a number"}},
      {"perturb={}", {"perturb.ranks", "missing", "random"}},
      {"perturb={\"ranks\": [-1]}", {"ranks = -1", "count from 0"}},
      {"perturb={\"ranks\": \"all\"}", {"ranks = \"all\"", "count from 0"}},
      {"perturb={\"hosts\": 1}", {"hosts = 1", "name of a host"}},
      {"perturb={\"random\": 1, \"factor\": 0.5}", {"factor = 0.5", "at least 1"}},
      {"perturb={\"random\": 1, \"probability\": 0}", {"probability = 0", "above 0"}},
      {"perturb={\"random\": 1, \"every\": 0}", {"every = 0", "from 1"}},
      {"perturb={\"random\": 1, \"tail\": 1}", {"tail = 1", "above 1"}},
      {"perturb={\"random\": 1, \"memory_gbps\": -1}", {"memory_gbps = -1", "0"}},
      {"perturb={\"random\": 1, \"memory_share\": 2}", {"memory_share = 2", "1"}},
      {"perturb={\"random\": 1, \"memory_gbps\": 1, \"memory_share\": 0.5}",
       {"perturb.memory_share", "give one of both"}},
      {"congestion={\"pattern\": \"star\"}", {"congestion.pattern", "star", "incast"}},
      {"congestion={\"mib\": 0}", {"congestion.mib = 0", "above 0"}},
      {"congestion={\"gbps\": 0}", {"congestion.gbps = 0", "above 0"}},
      {"congestion={\"ranks\": [-1]}", {"congestion.ranks = -1", "count from 0"}},
      {"congestion={\"size\": 1}", {"congestion.size"}},
      {"perturb={\"random\": 1, \"pauses\": 1}", {"did you mean \"pause_ms\""}},
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
      {"run.memory_mode=loose", {"\"loose\"", "\"strict\""}},
      {"run.compute=gemm", {"not modelled yet", "\"train\", \"none\""}},
      {"run.activation_checkpointing=1", {"activation_checkpointing = 1", "true or false"}},
      {"comm.backend=gloo", {"\"gloo\"", "\"mpi\"", "\"nccl\""}},
      {"checkpoint={}", {"checkpoint.dir", "missing"}},
      {"checkpoint={\"dir\": \"x\", \"evry\": 1}", {"did you mean \"every\""}},
      {"checkpoint={\"dir\": \"x\", \"every\": -1}", {"every = -1", "from 0"}},
      {"checkpoint={\"dir\": \"x\", \"keep\": \"all\"}", {"keep", "must be an integer"}},
      {"checkpoint={\"dir\": \"x\", \"layout\": \"share\"}", {"did you mean \"shared\""}},
      {"checkpoint={\"dir\": \"x\", \"resume\": \"../x\"}", {"resume", "name of a checkpoint"}},
      {"checkpoint={\"dir\": \"x\", \"resume\": \"\"}", {"resume", "\"latest\""}},
      {"checkpoint={\"dir\": \"x\", \"ranks_per_file\": 0}", {"ranks_per_file = 0", "from 1"}},
      {"checkpoint={\"dir\": \"x\", \"layout\": \"shared\", \"ranks_per_file\": 2}",
       {"ranks_per_file = 2", "all ranks write one file"}},
      {"checkpoint={\"dir\": \"x\", \"async\": true, \"layout\": \"shared\"}",
       {"async = true", "if ranks share a file"}},
      {"checkpoint={\"dir\": \"x\", \"benchmark\": 2}", {"benchmark = 2", "run.compute \"none\""}},
      {"checkpoint={\"dir\": \"x\", \"alignment_bytes\": 3}", {"= 3", "power of two"}},
      {"checkpoint={\"dir\": \"x\", \"hints\": {\"cb_nodes\": 1}}", {"cb_nodes = 1", "strings"}},
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
      {"deepspeed.optimizer.type=Lamb", {"= \"Lamb\"", "not modelled yet", "AdamW"}},
      {"deepspeed.scheduler.type=OneCycle", {"= \"OneCycle\"", "not modelled yet", "WarmupLR"}},
      {"deepspeed.scheduler.type=Warmup", {"= \"Warmup\"", "knows no scheduler", "WarmupLR"}},
      {"deepspeed.optimizer.params.fused=true", {"= true", "torch_adam"}},
      {"deepspeed.optimizer.params.amsgrad=true", {"= true", "not modelled yet"}},
      {"deepspeed.communication_data_type=int4", {"\"fp32\", \"fp16\" or \"bf16\""}},
      {"deepspeed.data_types.grad_accum_dtype=fp64", {"= \"fp64\"", "must be"}},
      {"deepspeed.data_types.grad_accum_dtype=bf16", {"= \"bf16\"", "not modelled yet"}},
      {"deepspeed.data_types.param_dtype=bf16", {"= \"bf16\"", "fp32"}},
      {"deepspeed.gradient_allreduce_op=sum", {"= \"sum\"", "stage 3 can only average"}},
      {"deepspeed.steps_per_print=0", {"= 0", "divides"}},
      {"deepspeed.checkpoint.tag_validation=loud", {"= \"loud\"", "\"warn\""}},
      {"deepspeed.fp16.fp16_master_weights_and_grads=true", {"= true", "not modelled yet"}},
      {"deepspeed.bf16.bf16_optimizer_states=true", {"= true", "bf16_master_weights_and_grads"}},
      {R"(deepspeed.bf16={"enabled": true, "bf16_master_weights_and_grads": true})",
       {"= true", "bf16_optimizer_states"}},
      {R"(deepspeed.torch_autocast={"enabled": true})",
       {"torch_autocast.dtype", "missing", "bf16"}},
      {R"(deepspeed.torch_autocast={"enabled": true, "dtype": "bf16"})",
       {"= true", "not modelled yet", "run.compute"}},
      {R"(deepspeed.torch_autocast={"enabled": true, "dtype": "fp32"})",
       {"= \"fp32\"", "not modelled yet", "16 bits"}},
      {R"(deepspeed.torch_autocast={"enabled": true, "dtype": "b16"})", {"= \"b16\"", "bfloat16"}},
      {R"(deepspeed.torch_autocast={"enabled": true, "dtype": "bf16",
                                     "lower_precision_safe_modules": ["Linear"]})",
       {"= \"Linear\"", "torch.nn.Linear"}},
      {"deepspeed.zero_optimization.enable_sanity_checks=true", {"= true", "not modelled yet"}},
      {"deepspeed.zero_optimization.leaf_module.names=[1]", {"= [1]", "a list of names"}},
      {R"(deepspeed.zero_optimization.leaf_module={"classes": ["Qwen3MoeSparseMoeBlock", "LlamaMLP"]})",
       {"LlamaMLP", "name_suffixes"}},
      {R"(deepspeed.zero_optimization.offload_optimizer={"device": "nvme"})",
       {"nvme_path", "missing", "folder"}},
      {R"(deepspeed.aio={"block_size": 0})", {"block_size = 0", "at least 1"}},
      {R"(deepspeed.zero_optimization.offload_param={"device": "nvme"})",
       {"offload_param.nvme_path", "missing", "folder"}},
      {R"(deepspeed.zero_optimization.offload_optimizer={"device": "cpu", "super_offload": true})",
       {"= true", "not modelled yet"}},
      {"machine.host_link_gbps=0", {"= 0", "above 0"}},
      {"machine.pcie=4", {"= 4", "unknown key"}},
      {"deepspeed.zero_optimization.zenflow={}", {"= {}", "not modelled yet"}},
      {"deepspeed.zero_optimization.zero_quantized_nontrainable_weights=true",
       {"zero_quantized_nontrainable_weights = true", "not modelled yet", "int8"}},
      {R"(deepspeed.zero_optimization={"stage": 3, "zero_quantized_gradients": true,
          "reduce_scatter": false})",
       {"zero_quantized_gradients = true", "needs reduce_scatter"}},
      {"machine.ranks_per_node=0", {"machine.ranks_per_node = 0", "from 1"}},
      {R"(deepspeed.zero_optimization={"stage": 3, "zero_hpz_partition_size": 2,
                                        "offload_param": {"device": "cpu"}})",
       {"zero_hpz_partition_size = 2", "not modelled yet", "offload_param"}},
      {"run.shard_size=0", {"run.shard_size = 0", "from 1"}},
      {"run.shard_size=2", {"run.schedule \"paper\"", "zero_hpz_partition_size"}},
      {"deepspeed.zero_optimization.mics_shard_size=2", {"DeepSpeed 0.19.8 has removed this key"}},
      {"deepspeed.zero_optimization.zeropp_loco_param=null", {"= null", "has removed this key"}},
      {"deepspeed.sparse_gradients=false", {"= false", "has removed this key: remove it"}},
      {"deepspeed.nebula={}", {"= {}", "has removed this key"}},
      {"deepspeed.curriculum_learning={\"enabled\": false}", {"removed", "data_efficiency"}},
      {"deepspeed.elasticity=null", {"= null", "removed", "batch sizes"}},
      {"deepspeed.optimizer={\"type\": \"OneBitAdam\"}", {"has removed this optimizer"}},
      {"deepspeed.optimizer={\"type\": \"Lamb\"}", {"= \"Lamb\"", "not modelled yet"}},
      {"deepspeed.optimizer={\"type\": \"Rprop\"}", {"= \"Rprop\"", "not modelled yet"}},
      {"deepspeed.optimizer={\"type\": \"AdamX\"}", {"= \"AdamX\"", "neither DeepSpeed"}},
      {"deepspeed.tensor_parallel.autotp_size=2",
       {"= 2", "not modelled yet", "the family gpt2, for which AutoTP has no policy",
        "set it to 1"}},
      {"deepspeed.tensor_parallel.autotp_size=\"2\"", {"not modelled yet", "gpt2"}},
      {R"(deepspeed.tensor_parallel={"autotp_size": 2, "preset_model": "llama"})",
       {"preset_model", "not modelled yet"}},
      {R"(deepspeed.tensor_parallel={"autotp_size": 4, "tp": {"tp_size": 2}})",
       {"tp_size = 2", "does not match tensor_parallel.autotp_size (4)"}},
      {"deepspeed.tensor_parallel.tp_size=2", {"= 2", "unknown key"}},
      {"deepspeed.tensor_parallel.tp.size=2", {"= 2", "unknown key", "tp_size"}},
      {"deepspeed.tensor_parallel.dtype=bf16", {"= \"bf16\"", "Python object"}},
      {"deepspeed.compile.enabled=true", {"= true", "unknown key"}},
      {"deepspeed.compile.deepcompile=true", {"= true", "not modelled yet"}},
      {R"(deepspeed.compile.passes=["z2"])", {"must be a list of", "\"z1\""}},
      {"deepspeed.hybrid_engine.max_out_tokens=0", {"= 0", "at least 1"}},
      {"deepspeed.expert_parallel={\"enabled\": true, \"autoep_size\": 2}",
       {"expert_parallel.autoep_size = 2", "not modelled yet", "without experts"}},
      {R"(deepspeed.expert_parallel={"enabled": true})",
       {"expert_parallel.autoep_size = 1", "not modelled yet"}},
      {R"(deepspeed.expert_parallel={"enabled": true, "autoep_size": 2, "preset_model": "deepseek_v3"})",
       {"preset_model", "not modelled yet", "mixtral"}},
      {R"(deepspeed.expert_parallel={"enabled": true, "autoep_size": 2, "score_apply": "pre"})",
       {"score_apply", "not modelled yet"}},
      {R"(deepspeed.data_efficiency={"enabled": false, "data_routing": {"random_ltd":
          {"enabled": true}}})",
       {"random_ltd.enabled = true", "not modelled yet"}},
      {"deepspeed.tensorboard.job=x", {"= \"x\"", "unknown key"}},
      {"deepspeed.comms_logger.enabled=maybe", {"true or false"}},
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
    if (message.find("missing") == std::string::npos && message.find(" {") == std::string::npos &&
        message.find(": true: ") == std::string::npos)
      expect_says(message, {" = "});
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

TEST(BadDeck, a_file_that_a_deck_would_name_is_told_from_a_deck) {
  const ScratchFolder folder;
  const struct {
    const char *text, *what, *remedy;
  } cases[] = {
      {R"({"model_type": "llama", "hidden_size": 64})", "config.json", "--model FILE"},
      {R"({"zero_optimization": {"stage": 3}})", "DeepSpeed config", "--deepspeed FILE"},
      {R"({"train_micro_batch_size_per_gpu": 1})", "DeepSpeed config", "--deepspeed FILE"},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { load_deck(folder.write("c.json", c.text), {}); }),
                {"c.json: model: missing", c.what, c.remedy});
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
      {"model.hidden=2147483647", "model.heads=1", "model.layers=1000"},
      {"model.hidden=2147483647", "model.heads=1", "model.vocab=2147483647"},
      {"deepspeed.train_micro_batch_size_per_gpu=9000000000000000000"},
  };
  for (const auto& sets : huge)
    expect_says(message_of<DeckError>([&] { load_deck(path, sets); }),
                {path, "63 bits", "smaller"});
  const std::string bucket = "deepspeed.zero_optimization.reduce_bucket_size=9223372036854775807";
  const auto load = [&](const char* other) {
    return message_of<DeckError>([&] {
      load_deck(path, {bucket, "deepspeed.zero_optimization.stage=2", other});
    });
  };
  expect_says(load("run.seed=1"),
              {path, "deepspeed.zero_optimization.reduce_bucket_size = 9223372036854775807",
               "63 bits", "smaller"});
  EXPECT_NO_THROW(load_deck(path, {bucket, "deepspeed.zero_optimization.stage=0"}));
}

}  // namespace
}  // namespace shardmark::test::bad_deck_test
