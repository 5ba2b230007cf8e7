// SPDX-License-Identifier: Apache-2.0
// A deck as plain typed values: what to train, under which ZeRO stage, and for how long.
// `io/deck/deck_reader` reads it from JSON and checks it; everything downstream only reads it.
// docs/decks.md explains each key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deck/choices.hpp>
#include <core/plan/deck/congestion.hpp>
#include <core/plan/deck/decoder.hpp>
#include <core/plan/deck/optimizers.hpp>
#include <core/plan/deck/parallel.hpp>
#include <core/plan/deck/perturb.hpp>
#include <core/plan/deck/torch_spec.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// One module of a `list` model, in registration order. A module without numels is a container.
struct ListModule {
  std::string name;
  std::vector<std::int64_t> numels;
  std::vector<std::vector<std::int64_t>> shapes = {};  // if given, one for each of the numels
  std::string python_class = {};                       // torch_autocast asks for it
  bool operator==(const ListModule&) const = default;
};

/// A hook of a module as stage 3 sees it: f+ runs before the module's forward and f- after it; b+
/// and b- do the same for backward. In a ModelSpec `module` is an index of ListModule, or
/// root_module for the root, whether the root is listed or not; in a ModelShape it is an index of
/// Module.
enum class VisitKind : std::uint8_t { pre_forward, post_forward, pre_backward, post_backward };
inline constexpr int root_module = -1;
/// One hook of one module.
struct Visit {
  VisitKind kind = VisitKind::pre_forward;
  int module = root_module;
  bool operator==(const Visit&) const = default;
};

/// The ranks of an axis of the mesh, and the one whose part is described. Ranks share as evenly as
/// they can: the first ones have one more than the others.
struct AxisPart {
  std::int64_t ranks = 1, rank = 0;
  bool cuts() const { return ranks > 1; }
  /// How many of `count` this rank has, how many the ranks before it have, and the most of any
  /// rank.
  std::int64_t share(std::int64_t count) const {
    return count / ranks + (rank < count % ranks ? 1 : 0);
  }
  std::int64_t first(std::int64_t count) const {
    return count / ranks * rank + std::min(rank, count % ranks);
  }
  std::int64_t most(std::int64_t count) const { return (count + ranks - 1) / ranks; }
  bool operator==(const AxisPart&) const = default;
};

/// How ranks divide the weight of a product: by `columns`, its outputs, so that each rank has a
/// part of them and the gradient of the input is a sum over ranks; or by `rows`, its inputs, so
/// that the output is a sum over ranks. These are DeepSpeed's words, which multiplies by the
/// transpose.
enum class ProductCut : std::uint8_t { none, columns, rows };

/// The section `model`: the sizes of a family, or a list of modules with their parameters.
struct ModelSpec {
  Family family = Family::gpt2;
  // gpt2, llama, decoder
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocab = 0;
  std::optional<double> fit;  // the part of the budget to fill; `layers` is 0 until that is done
  std::int64_t kv_heads = 0, ffn = 0;  // llama, decoder
  bool qkv_bias = false;               // llama: whether q, k and v have biases
  bool tied_head = false;
  SharedDecoder decoder;  // decoder
  // All sizes above are those of the whole model and of whole samples.
  AxisPart part;           // of the layers
  AxisPart sequence_part;  // of each sample
  AxisPart expert_part;    // of each layer's experts
  // list
  std::vector<ListModule> modules;
  std::vector<std::pair<std::string, std::string>> tied;  // {alias, owner}
  std::vector<Visit> visits;                              // empty: the containers' order
  // Of parameters, without those that no backward reaches; empty: reverse order.
  std::vector<int> gradient_ready_order;
  std::vector<int> frozen;                     // parameters without gradients
  std::vector<std::vector<int>> param_groups;  // of the optimizer; empty: one group
  bool operator==(const ModelSpec&) const = default;
};

/// `data.source`: what a run trains on.
enum class DataSource : std::uint8_t { none, file, markov, uniform };
template<>
inline constexpr auto value_names<DataSource> = name_list("none", "file", "markov", "uniform");
/// The section `data`.
struct DataSpec {
  DataSource source = DataSource::none;  // none if nothing is trained
  std::string path;                      // absolute, or relative to the current folder
  std::uint64_t seed = 1;
  bool operator==(const DataSpec&) const = default;
};

/// The optimizer as DeepSpeed configures it, with DeepSpeed's defaults for AdamW.
struct OptimizerSpec {
  Optimizer type = Optimizer::adamw;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  bool bias_correction = true;
  double momentum = 0;                         // SGD, Muon
  double dampening = 0;                        // SGD
  bool nesterov = false;                       // SGD
  double lr_decay = 0, first_accumulator = 0;  // Adagrad
  double adam_lr = 0;    // Muon: of the parameters that AdamW updates; `lr` is that of the matrices
  bool unfused = false;  // not DeepSpeed's own Adam, which stage 0 treats differently
  bool operator==(const OptimizerSpec&) const = default;
};

/// DeepSpeed's learning rate schedulers, with its defaults; `constant` if none is configured.
enum class LrSchedule : std::uint8_t { constant, warmup, warmup_decay, warmup_cosine };
/// The section `scheduler` of a DeepSpeed config. Steps are optimizer steps that were not skipped.
struct SchedulerSpec {
  LrSchedule type = LrSchedule::constant;
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;  // warmup, warmup_decay
  double adam_min_lr = 0, adam_max_lr = 1e-3;      // Muon: the same for what AdamW updates
  std::int64_t warmup_num_steps = 1000;
  bool linear = false;                                // warmup_type is linear, not log
  std::int64_t total_num_steps = 0;                   // warmup_decay, warmup_cosine
  double warmup_min_ratio = 0, cos_min_ratio = 1e-4;  // warmup_cosine: parts of lr
  bool operator==(const SchedulerSpec&) const = default;
};

/// fp16's loss scaling. The scale is static unless `dynamic`; other types have the static scale 1.
struct LossScaleSpec {
  bool dynamic = false;
  double initial = 1;
  std::int64_t window = 1000, hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_scale = 1;
  bool operator==(const LossScaleSpec&) const = default;
};

/// The section `torch_autocast`: products are computed in 16 bits. At stages 1 to 3 the parameters
/// of modules of certain classes, the safe ones, are gathered, and their gradients are sent, in
/// that type.
struct AutocastSpec {
  std::optional<Dtype> dtype;             // empty: not enabled
  std::vector<std::string> safe_classes;  // see core/plan/deepspeed/module_classes.hpp
  bool operator==(const AutocastSpec&) const = default;
};

/// The types in which DeepSpeed stores and sends.
struct PrecisionSpec {
  Dtype model = Dtype::fp32;       // parameters and gradients: fp32, bf16 or fp16
  Dtype grad_accum = Dtype::fp32;  // data_types.grad_accum_dtype; default: model
  Dtype master = Dtype::fp32;      // of the master, its gradients and the optimizer's states
  Dtype comm = Dtype::fp32;        // communication_data_type; default: model
  std::optional<Dtype> compute;    // of forward and backward; empty: model
  AutocastSpec autocast;
  bool check_overflow = false;  // a flag is reduced before the step (at stages 1 to 3)
  LossScaleSpec loss_scale;
  Dtype computes_in() const { return compute.value_or(model); }
  bool operator==(const PrecisionSpec&) const = default;
};

/// Whether DeepSpeed uses its BF16_Optimizer, which keeps one flat fp32 gradient per parameter
/// group: at stage 1 with bf16 parameters and fp32 accumulation, unless the optimizer is offloaded.
constexpr bool uses_bf16_optimizer(int stage, Dtype model, Dtype grad_accum, bool offloads) {
  return stage == 1 && model == Dtype::bf16 && grad_accum == Dtype::fp32 && !offloads;
}

/// Which modules stage 3 gathers together with all that lies in them: by the name of their class,
/// alone or behind that of its Python module, by their own name, by its end, or by their
/// granularity in elements (leaf_modules.hpp), up to which the outermost ones are taken.
struct LeafModules {
  std::vector<std::string> classes = {
      "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
      "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
      "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock"};
  std::vector<std::string> names = {}, name_suffixes = {};
  std::int64_t granularity = 0;
  bool operator==(const LeafModules&) const = default;

  /// Whether a name of a class means `python_class`: as a whole, or what follows its last point.
  static bool means(std::string_view name, std::string_view python_class) {
    return name == python_class || name == python_class.substr(python_class.rfind('.') + 1);
  }
};

/// The knobs of DeepSpeed's own schedule, in elements, with the defaults of DeepSpeed 0.19.8.
struct ZeroKnobs {
  // stages 1, 2
  bool contiguous_gradients = true, reduce_scatter = true;  // the latter at stage 3 too
  bool use_multi_rank_bucket_allreduce = true, compute_grad_norm = true;
  bool parameter_alignment = false, round_robin_gradients = false;
  bool overlap_comm = false;  // true by default at stage 3
  std::int64_t reduce_bucket_size = 500'000'000;
  bool immediate_grad_update = false;  // BF16_Optimizer frees each 16-bit gradient once it is added
  // stage 3
  std::int64_t sub_group_size = 1'000'000'000, prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000, max_reuse_distance = 1'000'000'000;
  bool use_all_reduce_for_fetch_params = false, allgather_sequential = false;
  bool memory_efficient_linear = true;
  LeafModules leaves = {};
  bool muon_momentum_in_memory = false;  // and not in files with the other states
  std::int64_t hpz_partition_size = 1;   // ranks per secondary copy; 1: no such copy
  bool quantized_weights = false;        // gathers send int8 and scales
  // Gradients are sent as int4 and scales, within nodes and then between them.
  bool quantized_gradients = false;
  // Whether DeepSpeed counts micro-batches. Otherwise the caller does, and the end of a step's
  // accumulation is known only when the step is taken.
  bool managed_accumulation = true;
  // stages 0, 1, and 2 without reduce_scatter
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  bool sums_gradients =
      false;  // gradient_allreduce_op "sum": sums are not divided by the world size
  bool operator==(const ZeroKnobs&) const = default;
};

/// `offload_optimizer` or `offload_param`. With device cpu the states lie in the host's memory.
/// With device nvme, at stage 3, states that are large enough lie in files.
struct OffloadSpec {
  bool enabled = false;
  bool pin_memory = true;  // page-locks the buffers of the host that DeepSpeed page-locks
  double ratio = 1;        // optimizer, stage 3: the part of the sub-groups to offload
  bool nvme = false;
  std::string nvme_path;          // absolute, or relative to the current folder
  std::int64_t buffer_count = 4;  // buffers on the host into which files are read
  std::int64_t buffer_size = 0;   // elements per buffer (parameters)
  std::int64_t max_in_cpu = 0;    // elements that stay in host memory (parameters)
  bool pipeline_read = false, pipeline_write = false;  // during the update of another sub-group
  bool operator==(const OffloadSpec&) const = default;
};

/// The section `aio`, which says how files are read and written.
struct AioSpec {
  std::int64_t block_size = std::int64_t{1} << 20, queue_depth = 8;
  std::int64_t least_bytes = std::int64_t{1} << 20;  // smaller states stay in memory
  std::int64_t alignment_bytes = 1024;               // of file sizes: 1024 x intra_op_parallelism
  bool operator==(const AioSpec&) const = default;
};

/// What ShardMark uses of a DeepSpeed config. The batch triple is complete only for a known world
/// size: `infer_batch` in io/deepspeed/config.hpp infers it as DeepSpeed does.
struct ZeroSpec {
  int stage = 0;
  std::optional<std::int64_t> train_batch_size, micro_batch_size, accumulation_steps;
  double gradient_clipping = 1.0;
  OptimizerSpec optimizer;
  SchedulerSpec scheduler;
  PrecisionSpec precision;
  ZeroKnobs knobs;
  ParallelSpec parallel;
  OffloadSpec offload_optimizer, offload_param;
  AioSpec aio;
  bool operator==(const ZeroSpec&) const = default;
};

/// The section `run`: how long a run is, and how it carries out its steps.
struct RunSpec {
  std::int64_t steps = 0, warmup = 0;
  std::uint64_t seed = 1;
  Schedule schedule = Schedule::deepspeed;
  Compute compute = Compute::train;
  Reductions reductions = Reductions::native;
  MemoryMode memory_mode = MemoryMode::pooled;
  bool activation_checkpointing = false;
  bool reentrant = false;  // checkpointing's older kind, whose backward begins after the block's
  std::int64_t shard_size = 0;         // ranks that share one copy of the states; 0: all
  std::optional<double> time_limit_s;  // since the start of the run, which then stops after a step
  bool operator==(const RunSpec&) const = default;
};

/// The section `comm`.
struct CommSpec {
  Backend backend = Backend::automatic;
  double timeout_s = 600;
  double delay_ms = 0;  // makes each collective longer, to show overlap; unofficial
  bool operator==(const CommSpec&) const = default;
};

/// The section `memory`: how much a rank may use.
struct MemorySpec {
  EnumArray<Tier, std::optional<double>> budget_gib;  // empty: found at run time
  std::optional<double> allowance_mib;  // empty: half the predicted peak, from 64 to 512
  bool operator==(const MemorySpec&) const = default;
};

/// A machine that this run imitates.
struct MachineSpec {
  // GB/s (1e9 bytes) between host and device, each way; empty: the speed of this machine.
  std::optional<double> host_link_gbps;
  // Devices of a node, as DeepSpeed counts them; 0: those of the profile.
  std::int64_t ranks_per_node = 0;
  bool operator==(const MachineSpec&) const = default;
};

/// Where and how checkpoints are written, and from which one a run continues; see
/// docs/checkpoints.md.
struct CheckpointSpec {
  std::string dir;                  // empty: the deck has no such section
  std::int64_t every = 0;           // steps; 0: writes none
  std::int64_t keep = 0;            // keeps this many of the newest; 0: all
  std::string resume = "none";      // none | latest | newest-good | a checkpoint's name
  std::int64_t ranks_per_file = 1;  // 0: one file (layout shared)
  bool async = false;               // writes a copy of the states while training goes on
  std::int64_t benchmark = 0;       // times this many writes and reads after the steps
  std::int64_t alignment_bytes = std::int64_t{1} << 20;
  std::vector<std::pair<std::string, std::string>> hints;  // MPI_Info of shared files
  bool writes() const { return every > 0 || benchmark > 0; }
  bool operator==(const CheckpointSpec&) const = default;
};

/// The section `expect`: the results that make a run VALID.
struct ExpectSpec {
  std::optional<double> loss;
  double tolerance = 0;  // absolute, around `loss`
  double loss_drop = 0;
  // `loss` holds only for runs of this global batch and number of steps, warm-up included; 0: any.
  std::int64_t train_batch_size = 0, steps = 0;
  bool operator==(const ExpectSpec&) const = default;
};

/// Everything that a deck and the DeepSpeed config in it say, checked and with all defaults filled
/// in. Plans and runs depend on nothing else that a user gives.
struct Deck {
  std::string path;        // as given on the command line, for messages
  std::string batch_file;  // that states the batch, for messages: the deck's, or a DeepSpeed config
  std::string name;
  ModelSpec model;
  DataSpec data;
  ZeroSpec zero;
  TorchSpec torch;
  RunSpec run;
  CommSpec comm;
  MemorySpec memory;
  MachineSpec machine;
  PerturbSpec perturb;
  CongestionSpec congestion;
  CheckpointSpec checkpoint;
  ExpectSpec expect;
  // What nothing states and the plan depends on: sentences that begin with the key and its value.
  std::vector<std::string> assumptions;
  bool operator==(const Deck&) const = default;
};

/// Plans list some things rank by rank.
inline constexpr int most_ranks = 131072;
/// Micro-batches are numbered with 32 bits.
inline constexpr std::int64_t most_micro_batches = 2147483647;

/// The batch triple, complete: global = micro * accumulation * the ranks that have data of their
/// own.
struct Batch {
  std::int64_t global = 0, micro = 0, accumulation = 0;
};

}  // namespace shardmark
