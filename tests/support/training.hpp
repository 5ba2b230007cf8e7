// SPDX-License-Identifier: Apache-2.0
// Runs a deck in process on the ranks of a test, without the driver, and keeps the results, so that
// tests can compare runs bit by bit and observe the communicator.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <comm/decorators/counting.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/node.hpp>
#include <core/memory/ledger.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/prove/state_hash.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/ranks/peers.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test {

/// Returns the number of ranks of this test.
inline int world() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

/// The results that must be equal, bit for bit, if a rule says so.
struct Outcome {
  std::vector<double> losses, norms;
  StateHashes hashes;
  bool operator==(const Outcome&) const = default;
};

/// Puts a test's decorators around the back-end.
using Decorate = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
/// Puts a test's model around the real model.
using Wrap = std::function<std::unique_ptr<Model>(std::unique_ptr<Model>)>;

/// Returns options that suit this machine, as those of a run do.
inline CommOptions mpi_options(Reductions reductions, MPI_Comm world = MPI_COMM_WORLD) {
  CommOptions o;
  o.reductions = reductions;
  if (world == MPI_COMM_WORLD) {
    // Determined once per process: with more ranks than cores, a blocking MPI call takes as long as
    // a small training.
    static const Idle of_all = find_node(MPI_COMM_WORLD).idle();
    o.idle = of_all;
  } else {
    o.idle = find_node(world).idle();
  }
  return o;
}

class Training {
 public:
  Training(const Deck& deck, MPI_Comm world, const Decorate& decorate = {}, const Wrap& wrap = {},
           std::optional<double> link_gb_per_s = {})
      : Training(deck, world, batch_of(deck, world), decorate, wrap, link_gb_per_s) {}

  Training(const Deck& deck, MPI_Comm world, const Batch& batch, const Decorate& decorate = {},
           const Wrap& wrap = {}, std::optional<double> link_gb_per_s = {})
      : deck_(with_link(deck, link_gb_per_s)),
        driver_lane_(
            make_communicator(Backend::mpi, world, mpi_options(Reductions::native, world))),
        peers_(*driver_lane_),
        matmul_(Profile{}.workspace_cap_bytes),
        context_{Space(), matmul_} {
    program_ = build_program(deck, batch, peers_.size(), peers_.rank(), Profile{});
    const CommOptions options = mpi_options(deck.run.reductions, world);
    auto backend = make_communicator(deck.comm.backend, world, options);
    if (decorate) backend = decorate(std::move(backend));
    lanes_.emplace(std::make_unique<CountingCommunicator>(std::move(backend), counters_), program_);
    auto model = make_model(deck_, program_, context_);
    if (wrap) model = wrap(std::move(model));
    session_.emplace(
        deck_, program_, *lanes_, context_,
        SessionOptions{.model = std::move(model), .idle = options.idle, .ledger = true});
  }

  /// Returns the batch triple of the deck, which gives the global batch size.
  static Batch batch_of(const Deck& deck, MPI_Comm world) {
    int ranks = 0;
    MPI_Comm_size(world, &ranks);
    const std::int64_t accumulation = deck.zero.accumulation_steps.value_or(1);
    ranks = Mesh(ranks, 0, deck.zero.parallel).data_parts();
    const std::int64_t micro = *deck.zero.train_batch_size / (ranks * accumulation);
    return {micro * ranks * accumulation, micro, accumulation};
  }

  void init() { runner().init(); }
  /// Runs start-up, then continues from what `checkpoints` found, if anything.
  void init(Checkpoints& checkpoints) {
    init();
    checkpoints.restore(executor(), runner());
    steps_ = checkpoints.first_step();
    resumed_ = steps_ > 0;
  }

  /// Runs one optimizer step without any communication by the test. Returns false if it was
  /// skipped.
  bool bare_step() {
    const bool updated = runner().step(steps_++);
    skips_.push_back(!updated);
    return updated;
  }
  /// How often each segment must have run, from the steps so far and the plan alone.
  SegmentRuns planned_runs() const { return shardmark::planned_runs(program_, skips_, resumed_); }

  /// Runs one optimizer step, and keeps its loss (over all ranks) and norm.
  void step() {
    skipped.push_back(!bare_step());
    if (const int slot = executor().find_slot("loss"); slot >= 0) {
      const double mine = *executor().slot(slot).as<double>();
      double sum = 0;
      for (double l : peers_.gather(mine)) sum += l;
      losses.push_back(sum / peers_.size() / static_cast<double>(program_.batch.accumulation));
    }
    norms.push_back(executor().norm());
  }

  /// Runs one step of the steady state, segment by segment, and calls `after_segment` after each.
  void step_by_segment() {
    const Step& step = program_.steps[step_path(program_, false).back()];
    int micro_batch = 0;
    for (int segment : segments_of(step, false)) {
      executor().run(segment, {.step = steps_, .updates = steps_, .micro_batch = micro_batch});
      after_segment(program_.segments[segment], micro_batch++);
    }
    ++steps_;
  }
  std::function<void(const Segment&, int)> after_segment;

  StateHashes hashes() { return hash_states(context_, program_, executor(), peers_); }

  /// Returns the full fp32 values of one tensor, gathered from the ranks that own them. Collective.
  std::vector<float> tensor(int id) {
    const Param& p = program_.model.params[id];
    std::vector<float> whole(static_cast<std::size_t>(p.elems));
    for (const StatePiece& piece : program_.states) {
      const std::int64_t at = piece.first_elem - p.first_elem;
      if (piece.state != State::master || at < 0 || at >= p.elems) continue;
      const float* data = executor().slot(piece.slot).as<float>() + piece.offset;
      std::copy(data, data + piece.elems, whole.begin() + at);
    }
    if (!program_.sharded[State::master]) return whole;
    const std::vector<float> all = peers_.gather(whole);  // zero where a rank owns nothing
    std::vector<float> sum(whole.size());
    const auto one_copy = sum.size() * static_cast<std::size_t>(program_.shard_ranks);
    for (std::size_t i = 0; i < one_copy; ++i) sum[i % sum.size()] += all[i];
    return sum;
  }

  const Program& program() const { return program_; }
  CommCounters& counting() { return counters_; }
  Context& context() { return context_; }
  LedgerSnapshot memory() const { return session_->memory(); }
  Executor& executor() { return session_->executor(); }
  MatMul& matmul() { return matmul_; }
  Peers& peers() { return peers_; }

  StepRunner& runner() { return session_->steps(); }

  std::vector<double> losses, norms;
  std::vector<bool> skipped;

 private:
  static Deck with_link(Deck deck, std::optional<double> gb_per_s) {
    if (gb_per_s) deck.machine.host_link_gbps = gb_per_s;
    return deck;
  }

  Deck deck_;
  std::unique_ptr<Communicator> driver_lane_;
  Peers peers_;
  MatMul matmul_;
  Context context_;
  Program program_;
  CommCounters counters_;
  std::optional<Lanes> lanes_;
  std::optional<Session> session_;
  std::int64_t steps_ = 0;
  bool resumed_ = false;
  std::vector<bool> skips_;  // by step that was run
};

/// Sets what a DeepSpeed config of that type sets, with a loss scale that is exact in fp16.
inline void set_precision(Deck& d, Dtype model, Dtype grad_accum) {
  PrecisionSpec& p = d.zero.precision;
  p.model = p.comm = model;
  p.grad_accum = grad_accum;
  const bool flat_bf16 = d.zero.stage == 1 && model == Dtype::bf16 && grad_accum == Dtype::fp32;
  p.check_overflow = model == Dtype::fp16 || (model == Dtype::bf16 && !flat_bf16 &&
                                              (d.zero.stage == 1 || d.zero.stage == 2));
  if (model == Dtype::fp16) p.loss_scale.initial = 8;
}

/// Checks that the ledger recorded what the plan predicts: the peak of every category (strict), or
/// the arenas, each allocated once (pooled).
inline void expect_memory_as_predicted(Training& t) {
  const Program& p = t.program();
  const LedgerSnapshot ledger = t.memory();
  const TierFootprint files = footprint(p, segments_of_runs(t.planned_runs()))[Tier::nvme];
  EXPECT_EQ(t.executor().files().peak_bytes, files.peak_bytes);
  EXPECT_EQ(t.executor().files().category_peaks, files.category_peaks);
  if (p.memory_mode == MemoryMode::pooled) {
    const ArenaLayout arena = arena_layout(p);
    for (Tier tier : memory_tiers) {
      EXPECT_EQ(ledger[tier].peak_bytes, arena[tier]);
      EXPECT_EQ(ledger[tier].allocations, arena[tier] > 0 ? 1 : 0);
    }
    return;
  }
  const Footprint f = footprint(p, segments_of_runs(t.planned_runs()));
  for (Tier tier : memory_tiers) {
    EXPECT_EQ(ledger[tier].peak_bytes, f[tier].peak_bytes);
    EXPECT_EQ(ledger[tier].category_peaks, f[tier].category_peaks);
    EXPECT_EQ(ledger[tier].at_peak, f[tier].at_peak);
  }
}

/// Returns a small GPT on uniform tokens, for every test that trains.
inline Deck small_deck(int stage, std::int64_t global_batch, std::int64_t accumulation = 1) {
  Deck d;
  d.name = "small";
  d.model.layers = 2;
  d.model.hidden = 40;
  d.model.heads = 5;
  d.model.sequence = 17;
  d.model.vocab = 53;
  d.data.source = DataSource::uniform;
  d.data.seed = 3;
  d.zero.stage = stage;
  d.zero.train_batch_size = global_batch;
  d.zero.accumulation_steps = accumulation;
  d.run.seed = 3;
  d.run.memory_mode = MemoryMode::strict;  // the mode in which every byte is visible
  d.zero.knobs.overlap_comm = stage == 3;  // even such a small model has several buckets
  d.zero.knobs.reduce_bucket_size = 9000;
  d.zero.knobs.prefetch_bucket_size = 7000;
  d.zero.knobs.max_live_parameters = 20000;
  d.zero.knobs.max_reuse_distance = 6000;
  d.zero.knobs.param_persistence_threshold = 50;
  return d;
}

/// What the plan has for the calls of one group or of all, with what routing added.
inline Volume planned_volume(Training& t, int group = all_groups) {
  Volume planned = volume_of_runs(t.program(), t.planned_runs(), group);
  const Traffic& routed = t.executor().routed().counted;
  if (routed != Traffic{} && (group == all_groups || group == t.program().expert_group))
    planned[Op::all_to_all] += routed;
  return planned;
}

/// Checks that the calls and the traffic of each group of ranks were as predicted.
inline void expect_groups_as_predicted(Training& t) {
  for (int g = 0; g < static_cast<int>(t.program().groups.size()); ++g)
    EXPECT_EQ(t.counting().volume(g), planned_volume(t, g)) << t.program().groups[g].name;
}

/// Starts a training, makes `steps` steps, and checks that memory and traffic were as predicted.
inline void train_as_predicted(Training& t, int steps) {
  t.init();
  for (int s = 0; s < steps; ++s) t.step();
  expect_memory_as_predicted(t);
  EXPECT_EQ(t.counting().volume(), planned_volume(t));
}

/// What a training on all ranks left behind.
struct Trained : Outcome {
  std::vector<bool> skipped;
  bool operator==(const Trained&) const = default;
};

/// Trains a deck whose plan is legal, and checks that memory and the traffic of each group were as
/// predicted, and that the ranks agree in the end.
inline Trained train_in_groups(const Deck& deck, int steps = 3) {
  Training t(deck, MPI_COMM_WORLD);
  require_legal(check(t.program()));
  train_as_predicted(t, steps);
  expect_groups_as_predicted(t);
  const Trained o{{t.losses, t.norms, t.hashes()}, t.skipped};
  EXPECT_EQ(o.hashes.disagreement, "");
  return o;
}

/// Trains 6 steps with and without what `knob` refers to, a part of the deck: with it, a repeated
/// training gives the same bits, and losses stay within 2 % of those without. One rank quantizes
/// nothing.
inline void expect_losses_near_those_without(Deck& deck, bool& knob) {
  knob = true;
  const Trained have = train_in_groups(deck, 6), again = train_in_groups(deck, 6);
  EXPECT_EQ(have, again);
  knob = false;
  const Trained want = train_in_groups(deck, 6);
  EXPECT_EQ(have.losses == want.losses, world() == 1);
  for (std::size_t s = 0; s < want.losses.size(); ++s)
    EXPECT_NEAR(have.losses[s], want.losses[s], 0.02 * want.losses[s]) << "step " << s;
}

/// Turns the model of `small_deck` into a Llama in which two query heads share one head of keys and
/// values, and q, k and v have biases, as in Qwen2.
inline void make_llama(ModelSpec& m) {
  m.family = Family::llama;
  m.heads = 10;
  m.kv_heads = 5;
  m.ffn = 56;
  m.qkv_bias = true;
}

}  // namespace shardmark::test
