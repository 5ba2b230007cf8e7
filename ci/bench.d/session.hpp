// SPDX-License-Identifier: Apache-2.0
// A session of a deck in this process, as the driver opens it, without self-check and report.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>
#include <fmt/core.h>

#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/mpi_world.hpp>
#include <comm/mpi/node.hpp>
#include <core/nn/kernels/threads.hpp>
#include <core/nn/products/matmul.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/execute/session.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/run/run_plan.hpp>

namespace shardmark::bench {

/// MPI and Kokkos as `shardmark run` has them.
class Machine {
 public:
  Machine(int argc, char** argv)
      : world((keep_freed_memory(), default_to_one_thread(), argc), argv) {
    Kokkos::initialize();
    node = find_node(world.comm());
  }
  ~Machine() { Kokkos::finalize(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Collective. A communicator of all ranks on the back-end that `auto` picks, for what the driver
  /// itself exchanges.
  std::unique_ptr<Communicator> make_lane() const {
    CommOptions options;
    options.idle = node.idle();
    return make_communicator(Backend::automatic, world.comm(), options);
  }

  MpiWorld world;
  Node node;
};

/// A deck's session, at the beginning of training.
class DeckSession {
 public:
  using ReplaceModel =
      std::function<std::unique_ptr<Model>(std::unique_ptr<Model> deck_model, const MatMul& matmul)>;

  /// Collective. `replace_model` makes another model out of the deck's; null: the deck's own model.
  DeckSession(const Machine& machine, const std::string& path, const std::vector<std::string>& sets,
              const ReplaceModel& replace_model = nullptr)
      : deck(load_deck(path, sets)) {
    const Idle idle = machine.node.idle();
    driver_lane_ = machine.make_lane();
    Peers peers(*driver_lane_);
    const Profile profile = run_profile(deck, machine.node, peers.size());
    program = build_program(deck, infer_batch(deck.zero, peers.size(), path), peers.size(),
                            peers.rank(), profile);
    const Bf16Choice bf16 = choose_bf16_products(deck, profile.workspace_cap_bytes, Space(), peers);
    matmul.emplace(profile.workspace_cap_bytes, bf16.products);
    context.emplace(Context{Space(), *matmul});
    watch_.emplace(machine.world.comm(), deck.comm.timeout_s, idle);
    lanes_.emplace(make_run_lane(deck, machine.world.comm(), *watch_, {}, counters_), program);
    std::unique_ptr<Model> model = make_model(deck, program, *context);
    if (replace_model) model = replace_model(std::move(model), *matmul);
    session_.emplace(deck, program, *lanes_, *context,
                     SessionOptions{.model = std::move(model), .idle = idle});
    runner().init();
  }

  void step() { runner().step(steps_++); }
  /// One step, with a trace of all but its collectives.
  StepTrace traced_step() {
    StepTrace trace;
    executor().trace(&trace);
    step();
    executor().trace(nullptr);
    return trace;
  }
  /// The matrix products of one step, in their order. Runs two steps, of which the first may differ.
  std::span<const MatMulShape> products_of_step() {
    step();
    matmul->record(true);
    step();
    matmul->record(false);
    return matmul->recorded();
  }
  Executor& executor() { return session_->executor(); }
  StepRunner& runner() { return session_->steps(); }

  /// The number of events that one later step runs.
  std::int64_t events_per_step() {
    const std::vector<std::int64_t> before = executor().runs();
    step();
    std::int64_t events = 0;
    for (std::size_t s = 0; s < before.size(); ++s)
      events += (executor().runs()[s] - before[s]) * std::ssize(program.segments[s].events);
    return events;
  }

  Deck deck;
  Program program;
  std::optional<MatMul> matmul;
  std::optional<Context> context;

 private:
  std::unique_ptr<Communicator> driver_lane_;
  std::optional<Watchdog> watch_;
  CommCounters counters_;
  std::optional<Lanes> lanes_;
  std::optional<Session> session_;
  std::int64_t steps_ = 0;
};

/// The main of a program of this folder. Prints the usage, which begins with the program's name, if
/// there are fewer than `least` arguments. What a deck lacks ends all ranks with its status.
template<class Body>
int run_bench(int argc, char** argv, int least, const std::string& usage, const Body& body) {
  if (argc <= least) return fmt::print(stderr, "{}\n", usage), 2;
  const Machine machine(argc, argv);
  try {
    body(machine);
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {}\n", usage.substr(0, usage.find(' ')), e.what());
    abort_all(machine.world.comm(), e.status());
  }
  return 0;
}

/// The main of a program NAME TURNS DECK [KEY=VALUE ...].
template<class Bench>
int run_deck_bench(int argc, char** argv, const std::string& name, const Bench& bench) {
  return run_bench(argc, argv, 2, name + " TURNS DECK [KEY=VALUE ...]", [&](const Machine& m) {
    bench(m, std::atoi(argv[1]), argv[2], {argv + 3, argv + argc});
  });
}

}  // namespace shardmark::bench
