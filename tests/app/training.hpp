// SPDX-License-Identifier: Apache-2.0
// Runs a deck in process on the ranks of a test, without the driver, and keeps what came out: so
// that tests can compare runs bit by bit and look beneath the communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <mpi.h>

#include <comm/counting.hpp>
#include <comm/factory.hpp>
#include <comm/node.hpp>
#include <core/memory/ledger.hpp>
#include <core/nn/matmul.hpp>
#include <core/plan/plan.hpp>
#include <io/tokens.hpp>
#include <miniapp/executor.hpp>
#include <miniapp/gpt_model.hpp>
#include <miniapp/list_model.hpp>
#include <miniapp/peers.hpp>
#include <miniapp/state_hash.hpp>

namespace shardmark::testing {

/// Puts decorators of a test around the back-end.
using Decorate = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
/// Puts a model of a test around the real one.
using Wrap = std::function<std::unique_ptr<Model>(std::unique_ptr<Model>)>;

/// How the tests' communicators are made: as a run's, on this machine.
inline MpiOptions mpi_options(Reductions reductions) {
  MpiOptions o;
  o.reductions = reductions;
  o.idle = find_node(MPI_COMM_WORLD).idle();
  return o;
}

class Training {
 public:
  Training(const Deck& deck, MPI_Comm world, const Decorate& decorate = {}, const Wrap& wrap = {})
      : deck_(deck),
        driver_lane_(make_communicator("mpi", world, mpi_options(Reductions::native))),
        peers_(*driver_lane_),
        matmul_(Profile{}.workspace_cap_bytes),
        context_{Space(), matmul_} {
    const int ranks = peers_.size();
    const std::int64_t accumulation = deck.zero.accumulation_steps.value_or(1);
    const std::int64_t micro = *deck.zero.train_batch_size / (ranks * accumulation);
    program_ = build_program(deck, {micro * ranks * accumulation, micro, accumulation}, ranks,
                             peers_.rank(), Profile{});
    auto backend = make_communicator("mpi", world, mpi_options(deck.run.reductions));
    if (decorate) backend = decorate(std::move(backend));
    lane_ = std::make_unique<CountingCommunicator>(std::move(backend), counters_);
    if (deck.run.compute == Compute::train) {
      tokens_ = make_token_source(deck);
      model_ = std::make_unique<GptModel>(deck_, program_, context_, *tokens_);
    } else {
      model_ = std::make_unique<ListModel>(context_);
    }
    if (wrap) model_ = wrap(std::move(model_));
    ledger_.emplace();
    executor_.emplace(program_, *model_, std::vector<Communicator*>{lane_.get()}, context_.space,
                      &*ledger_);
    context_.poll = [](void* e) { static_cast<Executor*>(e)->poll(); };
    context_.poll_arg = &*executor_;
  }

  void init() { executor_->run(SegmentKind::init, 0, 0); }

  /// One optimizer step and nothing else: no talk of the test's own.
  void bare_step() {
    int micro = 0;
    for (SegmentKind kind : step_segments(program_.batch.accumulation))
      executor_->run(kind, steps_, micro++);
    ++steps_;
  }

  /// One optimizer step; its loss (over all ranks) and norm are kept.
  void step() {
    bare_step();
    if (const int slot = executor_->find_slot("loss"); slot >= 0) {
      const double mine = *executor_->slot(slot).as<double>();
      double sum = 0;
      for (double l : peers_.gather(mine)) sum += l;
      losses.push_back(sum / peers_.size() / static_cast<double>(program_.batch.accumulation));
    }
    norms.push_back(*executor_->slot(executor_->find_slot("clip")).as<double>());
  }

  StateHashes hashes() { return hash_states(context_, program_, *executor_, peers_); }

  /// Collective. The full values of one tensor, gathered from whoever owns them.
  std::vector<float> tensor(int id) {
    const Param& p = program_.model.params[id];
    const Unit& unit = program_.model.units[p.unit];
    const Bound state = executor_->slot(executor_->find_slot("param." + unit.name));
    std::vector<float> whole(state.as<float>(), state.as<float>() + state.elems);
    if (state.elems < program_.partition.units[p.unit].padded) whole = peers_.gather(whole);
    const auto first = static_cast<std::ptrdiff_t>(p.first_elem - unit.first_elem);
    return {whole.begin() + first, whole.begin() + first + static_cast<std::ptrdiff_t>(p.elems)};
  }

  const Program& program() const { return program_; }
  CommCounters& counting() { return counters_; }
  Ledger& ledger() { return *ledger_; }
  Executor& executor() { return *executor_; }
  MatMul& matmul() { return matmul_; }
  Peers& peers() { return peers_; }

  std::vector<double> losses, norms;

 private:
  Deck deck_;
  std::unique_ptr<Communicator> driver_lane_;
  Peers peers_;
  MatMul matmul_;
  Context context_;
  Program program_;
  CommCounters counters_;
  std::unique_ptr<CountingCommunicator> lane_;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<Model> model_;
  std::optional<Ledger> ledger_;
  std::optional<Executor> executor_;
  std::int64_t steps_ = 0;
};

/// A small GPT on uniform tokens, for every test that trains.
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
  return d;
}

}  // namespace shardmark::testing
