// SPDX-License-Identifier: Apache-2.0
// The keys of the sections of a deck, among them `model`, by family, and `torch`: the arguments
// that a training script gives to PyTorch's DistributedDataParallel, ZeroRedundancyOptimizer and
// fully_shard, under PyTorch's names.
#include <stdexcept>

#include <io/deck/deck_keys.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {

namespace {

using enum KeyType;

constexpr double most_steps = 1e9, most_seconds = 1e9;
constexpr double most_seed = 4294967295, most_shard = 2147483647;
constexpr double most_gib = 1e9, most_count = 1e9, most_alignment = 1 << 30;
constexpr double most_factor = 1000, most_pause_ms = 1e6, most_tail = 100, most_gbps = 1e5;

// clang-format off
constexpr Key run_keys[] = {
    Key("steps", in<&RunSpec::steps>, "the number of timed steps").within({1, most_steps})
        .or_else("null"),
    Key("warmup", in<&RunSpec::warmup>, "the number of warm-up steps, which come first")
        .within({0, most_steps}),
    Key("seed", in<&RunSpec::seed>, "the seed of the initial values and of the data")
        .within({0, most_seed}),
    Key("schedule", in<&RunSpec::schedule>,
        "which collectives, copies and computations a step consists of"),
    Key("compute", in<&RunSpec::compute>, "whether models compute").one_of("train|none|gemm?"),
    Key("reductions", in<&RunSpec::reductions>, "in which order gradients are summed"),
    Key("memory_mode", in<&RunSpec::memory_mode>, "whether buffers have fixed places")
        .one_of("pooled|strict"),
    Key("activation_checkpointing", any, "false",
        "each transformer block keeps only its input, and its forward pass runs again during "
        "backward"),
    Key("shard_size", in<&RunSpec::shard_size>, "the number of ranks that states are sharded over")
        .within({1, most_shard}).or_else("null"),
    Key("time_limit_s", in<&RunSpec::time_limit_s>, "seconds since the run began to read its deck")
        .within({0, most_seconds, true}),
};

constexpr Key comm_keys[] = {
    Key("backend", in<&CommSpec::backend>, "which library carries out the collectives"),
    Key("timeout_s", in<&CommSpec::timeout_s>, "a collective that takes longer ends the run")
        .within({0, most_seconds, true}),
    Key("delay_ms", in<&CommSpec::delay_ms>, "every collective takes this much longer")
        .within({0, 1e6}),
};

constexpr Key data_keys[] = {
    Key("source", in<&DataSpec::source>, "what a run trains on").one_of("file|markov|uniform")
        .required(),
    Key("path", text, "null", "the file").if_absent("required for `file`"),
    Key("seed", in<&DataSpec::seed>, "the seed of `markov` and `uniform`").within({0, most_seed})
        .if_absent("run.seed"),
};

constexpr Key memory_keys[] = {
    Key("device_gib", in<&MemorySpec::budget_gib, Tier::device>,
        "the device memory budget per rank").within({0, most_gib, true}),
    Key("host_gib", in<&MemorySpec::budget_gib, Tier::host>,
        "the budget of host memory per node; the ranks of the node share it")
        .within({0, most_gib, true}),
    Key("nvme_gib", in<&MemorySpec::budget_gib, Tier::nvme>,
        "the budget of files per node; the ranks of the node share it")
        .within({0, most_gib, true}),
    Key("allowance_mib", in<&MemorySpec::allowance_mib>,
        "by how much the memory that the system counts for a rank may exceed the ledger's peak")
        .within({0, most_gib}),
};

constexpr Key checkpoint_keys[] = {
    Key("dir", in<&CheckpointSpec::dir>, "the folder of the checkpoints").required(),
    Key("every", in<&CheckpointSpec::every>,
        "the number of steps between checkpoints; 0 writes none").within({0, most_count}),
    Key("keep", in<&CheckpointSpec::keep>,
        "how many of the newest checkpoints are kept; 0 keeps all").within({0, most_count}),
    Key("alignment_bytes", in<&CheckpointSpec::alignment_bytes>,
        "datasets start at multiples of this in a file").within({1, most_alignment}),
    Key("async", in<&CheckpointSpec::async>,
        "states are copied aside and written while training continues"),
    Key("benchmark", in<&CheckpointSpec::benchmark>,
        "this many checkpoints are written and read after the steps, and each is timed")
        .within({0, 1000}),
    Key("resume", in<&CheckpointSpec::resume>, "the checkpoint from which a run continues"),
    Key("hints", object, "null",
        "the `MPI_Info` hints (for example for striping) used to create files that several ranks "
        "write"),
    Key("layout", word, "\"file_per_rank\"", "how many ranks write one file")
        .one_of("file_per_rank|shared"),
    Key("ranks_per_file", in<&CheckpointSpec::ranks_per_file>,
        "this many ranks write one file together").within({1, most_count}),
};

constexpr Key perturb_keys[] = {
    Key("ranks", any, "null", "the ranks that are made slower on purpose"),
    Key("hosts", any, "null", "the hosts all of whose ranks are made slower"),
    Key("random", in<&PerturbSpec::random>, "a number of ranks that are drawn and made slower")
        .within({0, most_ranks}),
    Key("every", in<&PerturbSpec::every>, "a rank is slowed in every n-th step")
        .within({1, most_steps}),
    Key("probability", in<&PerturbSpec::probability>,
        "a rank is slowed in such a step with this probability").within({0, 1, true}),
    Key("factor", in<&PerturbSpec::factor>, "computing takes this many times as long")
        .within({1, most_factor}),
    Key("pause_ms", in<&PerturbSpec::pause_ms>, "a pause before the first computation of a step")
        .within({0, most_pause_ms}),
    Key("tail", in<&PerturbSpec::tail>, "pauses have a Pareto distribution of this shape")
        .within({1, most_tail, true}),
    Key("memory_gbps", in<&PerturbSpec::memory, &MemoryTraffic::gbps>,
        "a thread of the rank writes to memory at this rate in GB/s").within({0, most_gbps}),
    Key("memory_share", in<&PerturbSpec::memory, &MemoryTraffic::share>,
        "a thread of the rank writes to memory in this fraction of the time").within({0, 1}),
    Key("seed", in<&PerturbSpec::seed>, "the seed of the draws").within({0, most_seed})
        .if_absent("run.seed"),
};

constexpr Key congestion_keys[] = {
    Key("ranks", any, "null", "the ranks between which there is background traffic"),
    Key("hosts", any, "null", "the hosts between whose ranks there is background traffic"),
    Key("pattern", in<&CongestionSpec::pattern>, "who sends to whom"),
    Key("mib", in<&CongestionSpec::mib>, "the size of one message, in MiB")
        .within({0, 1024, true}),
    Key("gbps", in<&CongestionSpec::gbps>, "how much each rank sends at most, in GB/s")
        .within({0, most_gbps, true}),
};

constexpr Key machine_keys[] = {
    Key("host_link_gbps", in<&MachineSpec::host_link_gbps>,
        "emulates a link of this bandwidth in GB/s (1e9 bytes per second) between host and device")
        .within({0, 1e6, true}),
    Key("ranks_per_node", in<&MachineSpec::ranks_per_node>,
        "the ranks per node that `zero_quantized_gradients` goes by").within({1, most_ranks}),
};

constexpr Key expect_keys[] = {
    Key("loss", in<&ExpectSpec::loss>, "the expected last loss"),
    Key("tolerance", in<&ExpectSpec::tolerance>, "how far the last loss may be from `expect.loss`")
        .at_least(0),
    Key("loss_drop", in<&ExpectSpec::loss_drop>, "by how much the mean loss must fall").at_least(0),
    Key("train_batch_size", in<&ExpectSpec::train_batch_size>,
        "the global batch of the runs to which `expect.loss` applies; 0 means any").at_least(0),
    Key("steps", in<&ExpectSpec::steps>, "the steps, including warm-up, of these runs; 0 means any")
        .at_least(0),
};
// clang-format on

using M = ModelSpec;

// The extents of matrix products, and tokens, are 32-bit integers.
constexpr RealRange size_of_model{1, 2147483647}, layer_count{1, 100'000};
constexpr RealRange above_zero_factor{0, 1e12, true};
constexpr RealRange room_of_experts{1, 1e6};

// clang-format off
constexpr Key model_keys[] = {
    Key("config", text, "null", "the path of a Hugging Face model config or of its folder"),
    Key("family", in<&M::family>, "what kind of model this is").required(),
};

constexpr Key transformer_keys[] = {
    Key("fit", in<&M::fit>, "given in place of `layers`: ShardMark chooses the largest number of "
        "layers whose memory is within this fraction").within({0, 1, true}),
    Key("layers", in<&M::layers>, "the number of transformer blocks").within(layer_count)
        .required("fit").or_else("null"),
    Key("hidden", in<&M::hidden>, "the channels of a token").within(size_of_model).required(),
    Key("heads", in<&M::heads>, "the heads of attention").within(size_of_model).required(),
    Key("sequence", in<&M::sequence>, "the tokens of a sequence").within(size_of_model).required(),
    Key("vocab", in<&M::vocab>, "the tokens that there are").within(size_of_model).required(),
    Key("tied_head", in<&M::tied_head>, "the head uses the token embedding as its weight"),
};

constexpr Key key_heads_key("kv_heads", in<&M::kv_heads>, "the number of key and value heads");
constexpr Key ffn_key("ffn", in<&M::ffn>, "the width of the feed-forward layer");

constexpr Key llama_keys[] = {
    key_heads_key.within(size_of_model).if_absent("heads"),
    ffn_key.within(size_of_model).required(),
    Key("qkv_bias", in<&M::qkv_bias>, "the projections to q, k and v have biases"),
};

constexpr Key decoder_keys[] = {
    Key("like", word, "\"llama\"", "whose values absent keys have").one_of("gpt2|llama"),
    key_heads_key.within(size_of_model).if_absent("heads"),
    ffn_key.within(size_of_model).required(),
    Key("init_std", number, "0.02", "standard deviation of the first values").within(above_zero_factor),
    Key("in_out", boolean, "false", "the weights of the block's products are stored as [in][out]"),
    Key("own_linear", boolean, "false",
        "the block's products are of a class of the model's own, not torch's linear function"),
    Key("autotp", word, "\"planned\"", "where AutoTP learns how to divide the layers")
        .one_of("planned|inferred|none"),
    Key("norm", object, "null"),
    Key("positions", object, "null"),
    Key("attention", object, "null"),
    Key("block", object, "null"),
    Key("mlp", object, "null"),
    Key("moe", object, "null"),
    Key("routing", word, "\"learned\"", "which experts a token has").one_of("learned|balanced"),
    Key("expert_room", number, "4",
        "learned routing over ranks that divide experts: how many times the rows of balanced "
        "routing a rank has room for").within(room_of_experts),
    Key("ends", object, "null"),
    Key("modules", array, "null", "the modules in registration order"),
    Key("adapter", any, "null", "low-rank factors beside frozen weights (LoRA)"),
};

constexpr Key list_keys[] = {
    Key("modules", array, "null", "the modules in registration order")
        .if_absent("required for `list`"),
    Key("tied", array, "null", "pairs of an alias and its owner"),
    Key("visits", array, "null", "the order in which stage 3's hooks see the modules"),
    Key("gradient_ready_order", array, "null",
        "parameter indices in the order in which their gradients become ready"),
    Key("frozen", array, "null", "indices of the parameters without gradients"),
    Key("param_groups", array, "null", "the optimizer's parameter groups, as parameter indices"),
};
// clang-format on

using T = TorchSpec;

constexpr double most_modules = 1e6, most_ratio = 1e9;
constexpr std::string_view last_micro_batch =
    "`false`: the script sets it for the last micro-batch of a step only";

// clang-format off
constexpr Key torch_keys[] = {
    Key("fully_shard", array, "null", "the calls in their order")
        .if_absent("each block, then the root"),
    Key("reshard_after_forward", any, "null", "`true`, `false`, or a number of ranks"),
    Key("mesh", array, "null", "`[shard]`, or `[replicate, shard]` for hybrid sharding")
        .if_absent("[world]"),
    Key("shard_placement_fn", in<&T::shard_dim>, "the dimension along which tensors are cut")
        .within({0, 16}),
    Key("mp_policy", object, "null", "`param_dtype` and `reduce_dtype`").if_absent("fp32"),
    Key("offload_policy", object_or_null, "null", "an object is a `CPUOffloadPolicy`"),
    Key("set_modules_to_forward_prefetch", in<&T::forward_prefetch>,
        "how many further groups each group prefetches").within({0, most_modules}),
    Key("set_modules_to_backward_prefetch", in<&T::backward_prefetch>,
        "how many further groups each group prefetches").within({0, most_modules}),
    Key("set_requires_gradient_sync", in<&T::requires_gradient_sync>, last_micro_batch),
    Key("set_requires_all_reduce", in<&T::requires_all_reduce>, last_micro_batch),
    Key("set_reshard_after_backward", in<&T::reshard_after_backward>, last_micro_batch),
    Key("set_is_last_backward", in<&T::is_last_backward>, last_micro_batch),
    Key("set_unshard_in_backward", object, "null", "an object of modules").if_absent("all true"),
    Key("set_gradient_divide_factor", in<&T::gradient_divide_factor>,
        "by what gradients are divided").within({0, most_ratio, true}).if_absent("the ranks"),
    Key("set_force_sum_reduction_for_comms", in<&T::force_sum_reduction>,
        "divides in a separate operation after the sum"),
    Key("set_reduce_scatter_max_input_buffers", in<&T::max_input_buffers>,
        "how many reduce_scatter inputs are kept").within({1, most_modules}),
    Key("frozen", array, "null", "modules or parameters with `requires_grad=False`"),
    Key("bucket_cap_mb", in<&T::bucket_cap_mb>, "the size at which a bucket closes")
        .within({0, most_ratio, true}).if_absent("25, and 1 for the first bucket"),
    Key("find_unused_parameters", in<&T::find_unused_parameters>, "as in PyTorch"),
    Key("static_graph", in<&T::static_graph>, "as in PyTorch"),
    Key("gradient_as_bucket_view", in<&T::gradient_as_bucket_view>, "as in PyTorch"),
    Key("init_sync", in<&T::init_sync>,
        "ranks compare shapes and take rank 0's values at the start"),
    Key("no_sync", in<&T::no_sync>, "micro-batches before the last one run under `no_sync()`"),
    Key("parameters_as_bucket_view", in<&T::parameters_as_bucket_view>,
        "ZeroRedundancyOptimizer sends one bucket per rank"),
};

constexpr Key mp_policy_keys[] = {
    Key("param_dtype", word, "null", "the type of parameters in forward and backward")
        .one_of("fp32|bf16|fp16"),
    Key("reduce_dtype", word, "null", "the type in which gradients are sent")
        .one_of("fp32|bf16|fp16"),
    Key("output_dtype", any, "null"),
    Key("cast_forward_inputs", any, "null"),
};

constexpr Key offload_policy_keys[] = {
    Key("pin_memory", in<&T::pin_memory>, "buffers on the host are page-locked"),
};
// clang-format on

}  // namespace

const std::vector<Section>& deck_sections() {
  static const std::vector<Section> all{
      {"run", run_keys},
      {"data", data_keys},
      {"comm", comm_keys},
      {"memory", memory_keys},
      {"machine", machine_keys},
      {"checkpoint", checkpoint_keys},
      {"perturb", perturb_keys},
      {"congestion", congestion_keys},
      {"expect", expect_keys},
      {.path = "model", .keys = model_keys},
      {.path = "model", .keys = transformer_keys, .owner = "transformer"},
      {.path = "model", .keys = llama_keys, .owner = "llama"},
      {.path = "model", .keys = decoder_keys, .owner = "decoder"},
      {.path = "model", .keys = list_keys, .owner = "list"},
      {"torch", torch_keys},
      {"torch.mp_policy", mp_policy_keys},
      {"torch.offload_policy", offload_policy_keys}};
  return all;
}

std::span<const Key> deck_keys(std::string_view name, std::string_view owner) {
  for (const Section& section : deck_sections())
    if (section.path == name && section.owner == owner) return section.keys;
  throw std::logic_error("no records of this section");
}

std::string path_of(const Member& member) {
  const auto found_in = [&](const std::vector<Section>& sections, std::string_view root) {
    for (const Section& section : sections)
      for (const Key& key : section.keys)
        if (key.member.get == member.get)
          return join_key(join_key(root, section.path), key.alias.empty() ? key.name : key.alias);
    return std::string();
  };
  std::string path = found_in(deck_sections(), "");
  if (path.empty()) path = found_in(ds_sections(), "deepspeed");
  if (path.empty()) throw std::logic_error("no record has this member of a deck");
  return path;
}

const Key* key_at(std::string_view path) {
  constexpr std::string_view deepspeed = "deepspeed.";
  if (path.starts_with(deepspeed)) return ds_key(path.substr(deepspeed.size()));
  const auto [parent, name] = split_key(path);
  for (const Section& section : deck_sections())
    if (section.path == parent)
      if (const Key* key = find_key(section.keys, name)) return key;
  return nullptr;
}

std::vector<std::string> paths_named(std::string_view name) {
  std::vector<std::string> paths = paths_named(name, deck_sections(), "");
  for (std::string& path : paths_named(name, ds_sections(), "deepspeed"))
    paths.push_back(std::move(path));
  return paths;
}

}  // namespace shardmark
