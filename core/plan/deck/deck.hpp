// SPDX-License-Identifier: Apache-2.0
// A deck as plain typed values: what to train, under which ZeRO stage, for how long.
// `io/deck/deck_reader` reads it from JSON and proves it sound; everything downstream only reads
// it. Key by key: README, "Decks".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// One module of a `list` model, in registration order. No numels: a container.
struct ListModule {
  std::string name;
  std::vector<std::int64_t> numels;
};

/// A module's hook as stage 3 sees it: f+ before its forward, f- after, b+ and b- the same of
/// backward. `module`: in a ModelSpec an index of ListModule, root_module for the root, listed or
/// not; in a ModelShape an index of Module.
enum class VisitKind : std::uint8_t { pre_forward, post_forward, pre_backward, post_backward };
inline constexpr int root_module = -1;
struct Visit {
  VisitKind kind = VisitKind::pre_forward;
  int module = root_module;
};

struct ModelSpec {
  Family family = Family::gpt2;
  // gpt2, llama
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocab = 0;
  std::optional<double> fit;  // `layers` is what fits into this part of the budget; 0 until found
  std::int64_t kv_heads = 0, ffn = 0;  // llama
  bool tied_head = false;
  // list
  std::vector<ListModule> modules;
  std::vector<std::pair<std::string, std::string>> tied;  // {alias, owner}
  std::vector<Visit> visits;                              // empty: as the containers nest
  std::vector<int> gradient_ready_order;                  // parameter indices; empty: exact reverse
  std::vector<std::vector<int>> param_groups;  // of the optimizer; empty: one of all parameters
};

enum class DataSource : std::uint8_t { none, file, markov, uniform };
struct DataSpec {
  DataSource source = DataSource::none;  // none only where nothing is trained
  std::string path;                      // absolute, or relative to the current folder
  std::uint64_t seed = 1;
};

/// Adam or AdamW as DeepSpeed configures it; defaults are DeepSpeed's.
struct OptimizerSpec {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  bool decoupled_decay = true;  // AdamW; false: Adam, whose decay is added to the gradient
  bool bias_correction = true;
};

/// DeepSpeed's learning rate schedulers, with its defaults. `constant`: none is configured.
enum class LrSchedule : std::uint8_t { constant, warmup, warmup_decay, warmup_cosine };
struct SchedulerSpec {
  LrSchedule type = LrSchedule::constant;
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;  // warmup, warmup_decay
  std::int64_t warmup_num_steps = 1000;
  bool linear = false;                                // warmup_type: linear, else log
  std::int64_t total_num_steps = 0;                   // warmup_decay, warmup_cosine
  double warmup_min_ratio = 0, cos_min_ratio = 1e-4;  // warmup_cosine: of the optimizer's lr
};

/// fp16's loss scaling. Static where `dynamic` is false; other dtypes: static, 1.
struct LossScaleSpec {
  bool dynamic = false;
  double initial = 1;
  std::int64_t window = 1000, hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_scale = 1;
};

/// What DeepSpeed stores and sends in which type.
struct PrecisionSpec {
  Dtype model = Dtype::fp32;       // parameters and gradients: fp32, bf16 or fp16
  Dtype grad_accum = Dtype::fp32;  // data_types.grad_accum_dtype; default: model
  Dtype comm = Dtype::fp32;        // communication_data_type; default: model
  bool check_overflow = false;     // whether a flag is reduced before the step (at stages 1 to 3)
  LossScaleSpec loss_scale;
};

/// The knobs of DeepSpeed's own schedule; elements, as DeepSpeed counts them. Defaults: 0.19.8's.
struct ZeroKnobs {
  // stages 1, 2
  bool contiguous_gradients = true, reduce_scatter = true;  // reduce_scatter: stage 3 too
  bool use_multi_rank_bucket_allreduce = true, compute_grad_norm = true;
  bool parameter_alignment = false, round_robin_gradients = false;
  bool overlap_comm = false;  // stage 3 unless given: true
  std::int64_t reduce_bucket_size = 500'000'000;
  // stage 3
  std::int64_t sub_group_size = 1'000'000'000, prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000, max_reuse_distance = 1'000'000'000;
  bool use_all_reduce_for_fetch_params = false, allgather_sequential = false;
  bool memory_efficient_linear = true;
  std::int64_t hpz_partition_size = 1;  // ranks that share a secondary copy; 1: there is none
  // stages 0, 1, and 2 without reduce_scatter
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  bool sums_gradients = false;  // gradient_allreduce_op "sum": nothing is divided by the world size
};

/// `offload_optimizer` or `offload_param` with device cpu: states that live in the host's memory.
/// With device nvme, at stage 3, those that are large enough live in files.
struct OffloadSpec {
  bool enabled = false;
  bool pin_memory = true;  // the host's buffers are page-locked, as far as DeepSpeed does it
  double ratio = 1;        // optimizer, stage 3: the part of the sub-groups that is offloaded
  bool nvme = false;
  std::string nvme_path;          // absolute, or relative to the current folder
  std::int64_t buffer_count = 4;  // buffers of the host that files are read into
  std::int64_t buffer_size = 0;   // elements of one (parameters)
  std::int64_t max_in_cpu = 0;    // elements that stay in the host's memory (parameters)
  bool pipeline_read = false, pipeline_write = false;  // ahead of, and behind, the update at hand
};

/// The section `aio`: how files are read and written.
struct AioSpec {
  std::int64_t block_size = std::int64_t{1} << 20, queue_depth = 8;
  std::int64_t least_bytes = std::int64_t{1} << 20;  // what is smaller stays in memory
  std::int64_t alignment_bytes = 1024;  // of files' sizes: 1024 for each of intra_op_parallelism
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
  OffloadSpec offload_optimizer, offload_param;
  AioSpec aio;
};

struct RunSpec {
  std::int64_t steps = 0, warmup = 0;
  std::uint64_t seed = 1;
  std::string schedule = "deepspeed";
  Compute compute = Compute::train;
  Reductions reductions = Reductions::native;
  MemoryMode memory_mode = MemoryMode::pooled;
  bool activation_checkpointing = false;
  std::int64_t shard_size = 0;  // of the schedule paper: ranks that states are cut over; 0: all
};

struct CommSpec {
  std::string backend = "auto";  // auto | self | mpi | shm | nccl
  double timeout_s = 600;
  double delay_ms = 0;  // every collective takes this much longer: shows overlap; unofficial
};

struct MemorySpec {
  std::array<std::optional<double>, tier_count> budget_gib;  // by tier; empty: found at run time
  double allowance_mib = 512;
};

/// A machine that this one stands in for.
struct MachineSpec {
  // GB/s (1e9 bytes) between host and device, each way; empty: as fast as it is.
  std::optional<double> host_link_gbps;
};

/// Where and how checkpoints are written, and what a run goes on from. README, "Checkpoints".
struct CheckpointSpec {
  std::string dir;                  // empty: the deck has no such section
  std::int64_t every = 0;           // steps; 0: none is written
  std::int64_t keep = 0;            // the newest so many stay; 0: all do
  std::string resume = "none";      // none | latest | a checkpoint's name
  std::int64_t ranks_per_file = 1;  // 0: one file for all (layout shared)
  bool async = false;               // states are copied aside and written beside training
  std::int64_t benchmark = 0;       // so many writes and reads are timed after the steps
  std::int64_t alignment_bytes = std::int64_t{1} << 20;
  std::vector<std::pair<std::string, std::string>> hints;  // MPI_Info of files of several ranks
  bool writes() const { return every > 0 || benchmark > 0; }
};

struct ExpectSpec {
  std::optional<double> loss;
  double tolerance = 0;  // absolute, around `loss`
  double loss_drop = 0;
  // The runs that `loss` is of, since others end with another; 0: all. Steps include the warm-up.
  std::int64_t train_batch_size = 0, steps = 0;
};

struct Deck {
  std::string path;  // as given on the command line, for messages
  std::string name;
  ModelSpec model;
  DataSpec data;
  ZeroSpec zero;
  RunSpec run;
  CommSpec comm;
  MemorySpec memory;
  MachineSpec machine;
  CheckpointSpec checkpoint;
  ExpectSpec expect;
};

/// The batch triple, complete: global = micro * accumulation * world.
struct Batch {
  std::int64_t global = 0, micro = 0, accumulation = 0;
};

}  // namespace shardmark
