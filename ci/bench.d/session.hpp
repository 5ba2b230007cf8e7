// SPDX-License-Identifier: Apache-2.0
// A deck ready to step in this process: what the driver assembles, without its talk and checks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/nn/kernels/threads.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/data/tokens.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/run/heap.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/setup.hpp>
#include <miniapp/execute/step_runner.hpp>
#include <miniapp/models/transformer_model.hpp>

namespace shardmark::bench {

/// MPI and Kokkos as `shardmark run` has them.
class Machine {
 public:
  Machine(int argc, char** argv) : world((keep_freed_memory(), default_to_one_thread(), argc), argv) {
    Kokkos::initialize();
    node = find_node(world.comm());
  }
  ~Machine() { Kokkos::finalize(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  MpiWorld world;
  Node node;
};

class Session {
 public:
  using MakeModel = std::unique_ptr<Model> (*)();

  /// Collective. `make_model` gives another model than the deck's; may be null.
  Session(const Machine& machine, const std::string& path, const std::vector<std::string>& sets,
          MakeModel make_model = nullptr)
      : deck(load_deck(path, sets)) {
    CommOptions options;
    options.idle = machine.node.idle();
    driver_lane_ = make_communicator("auto", machine.world.comm(), options);
    Peers peers(*driver_lane_);
    const Profile profile = run_profile(deck, machine.node, peers.size());
    program = build_program(deck, infer_batch(deck.zero, peers.size(), path), peers.size(),
                            peers.rank(), profile);
    const Bf16Choice bf16 = choose_bf16_products(deck, profile.workspace_cap_bytes, Space(), peers);
    matmul.emplace(profile.workspace_cap_bytes, bf16.products);
    context.emplace(Context{Space(), *matmul});
    options.reductions = deck.run.reductions;
    lane_ = make_communicator(deck.comm.backend, machine.world.comm(), options);
    tokens_ = make_token_source(deck);
    model_ = make_model != nullptr
                 ? make_model()
                 : std::make_unique<TransformerModel>(deck, program, *context, *tokens_);
    groups_ = make_group_lanes(*lane_, program);
    executor_.emplace(program, *model_, all_lanes(*lane_, groups_), context->space, nullptr,
                      ExecutorOptions{.idle = options.idle,
                                      .link_gb_per_s = deck.machine.host_link_gbps});
    runner_.emplace(deck, program, *executor_);
    context->poll = [](void* e) { static_cast<Executor*>(e)->poll(); };
    context->poll_arg = &*executor_;
    runner_->init();
  }

  void step() { runner_->step(steps_++); }
  /// What a step looked like from inside; its collectives are not noted.
  StepTrace traced_step() {
    StepTrace trace;
    executor_->trace(&trace);
    step();
    executor_->trace(nullptr);
    return trace;
  }
  Executor& executor() { return *executor_; }
  StepRunner& runner() { return *runner_; }

  /// Events that one step of the steady state runs.
  std::int64_t events_per_step() {
    const std::vector<std::int64_t> before = runner_->runs();
    step();
    std::int64_t events = 0;
    for (std::size_t s = 0; s < before.size(); ++s)
      events += (runner_->runs()[s] - before[s]) * std::ssize(program.segments[s].events);
    return events;
  }

  Deck deck;
  Program program;
  std::optional<MatMul> matmul;
  std::optional<Context> context;

 private:
  std::unique_ptr<Communicator> driver_lane_, lane_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<Model> model_;
  std::optional<Executor> executor_;
  std::optional<StepRunner> runner_;
  std::int64_t steps_ = 0;
};

}  // namespace shardmark::bench
