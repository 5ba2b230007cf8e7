// SPDX-License-Identifier: Apache-2.0
// A deck as plain typed values: what to train, under which ZeRO stage, for how long. `io/deck`
// reads it from JSON and proves it sound; everything downstream only reads it. Key by key: README,
// "Decks".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/types.hpp>

namespace shardmark {

/// One module of a `list` model, in registration order. No numels: a container.
struct ListModule {
  std::string name;
  std::vector<std::int64_t> numels;
};

struct ModelSpec {
  Family family = Family::gpt2;
  // gpt2
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocab = 0;
  bool tied_head = false;
  // list
  std::vector<ListModule> modules;
  std::vector<std::pair<std::string, std::string>> tied;  // {alias, owner}
};

enum class DataSource : std::uint8_t { none, file, markov, uniform };
struct DataSpec {
  DataSource source = DataSource::none;  // none only where nothing is trained
  std::string path;                      // absolute, or relative to the current folder
  std::uint64_t seed = 1;
};

/// AdamW as DeepSpeed configures it; defaults are DeepSpeed's.
struct OptimizerSpec {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

/// What ShardMark uses of a DeepSpeed config. The batch triple is complete only for a known world
/// size: `infer_batch` in io/deepspeed_config.hpp infers it as DeepSpeed does.
struct ZeroSpec {
  int stage = 0;
  std::optional<std::int64_t> train_batch_size, micro_batch_size, accumulation_steps;
  double gradient_clipping = 1.0;
  OptimizerSpec optimizer;
};

struct RunSpec {
  std::int64_t steps = 0, warmup = 0;
  std::uint64_t seed = 1;
  std::string schedule = "paper";
  Compute compute = Compute::train;
  Reductions reductions = Reductions::native;
  std::string memory_mode = "strict";
};

struct CommSpec {
  std::string backend = "auto";  // auto | self | mpi
  double timeout_s = 600;
  double delay_ms = 0;  // every collective takes this much longer: shows overlap; unofficial
};

struct MemorySpec {
  std::array<std::optional<double>, tier_count> budget_gib;  // by tier; empty: found at run time
  double allowance_mib = 512;
};

struct ExpectSpec {
  std::optional<double> loss;
  double tolerance = 0;  // absolute, around `loss`
  double loss_drop = 0;
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
  ExpectSpec expect;
};

/// The batch triple, complete: global = micro * accumulation * world.
struct Batch {
  std::int64_t global = 0, micro = 0, accumulation = 0;
};

}  // namespace shardmark
