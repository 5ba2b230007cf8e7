// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>
#include <core/kokkos_shim.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/deck/quantized.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <io/deepspeed/config.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/run/budgets.hpp>
#include <miniapp/run/run_plan.hpp>

namespace shardmark {

namespace {

// As a defect of a schedule would: the first buffer is released before it is acquired.
void break_plan(Program& program) {
  for (Segment& segment : program.segments)
    for (Event& event : segment.events)
      if (event.op == Op::acquire) {
        event.op = Op::release;
        return;
      }
}

std::optional<std::string> refusal_of(const Program& program, const RunBudgets& budgets, int ranks,
                                      const FittingChanges& fitting = {}) {
  if (budgets.shared)
    if (auto refusal = over_shared_budget(program, *budgets.shared, ranks, fitting)) return refusal;
  return over_budget(program, budgets.bytes, ranks, fitting);
}

// The changes of the deck with which this rank's program would fit.
std::vector<std::string> remedies(const RunPlan& run, const World& world) {
  const Deck& deck = run.loaded.deck;
  return changes_that_fit(
      deck, run.batch, world.peers.size(), world.peers.rank(), run.profile,
      [&](const Program& program) {
        return !refusal_of(program,
                           run_budgets(deck, allocated_bytes(program), run.profile.ranks_per_node),
                           world.node.ranks);
      });
}

// A run whose model states alone do not fit is refused before the plan of its steps is made.
void refuse_states(const RunPlan& run, const World& world) {
  const Deck& deck = run.loaded.deck;
  world.peers.agree([&] {
    const RunBudgets most = run_budgets(deck, {}, run.profile.ranks_per_node);
    const Program start_up = build_program(deck, run.batch, world.peers.size(), world.peers.rank(),
                                           run.profile, Extent::start_up);
    const auto refusal = [&](const FittingChanges& fitting) {
      return states_over_budget(start_up, most.bytes, most.shared, world.node.ranks, fitting);
    };
    if (refusal({})) throw MemoryError(deck.path + ": " + *refusal(remedies(run, world)));
  });
}

// Each rank counts the ranks of its own node, and all must build the same groups of nodes.
void require_equal_nodes(const RunPlan& run, Peers& peers) {
  const Deck& deck = run.loaded.deck;
  if (!sends_int4(deck) || deck.machine.ranks_per_node > 0) return;
  const auto ranks = peers.gather(std::int64_t{run.profile.ranks_per_node});
  peers.agree([&] {
    for (std::size_t r = 1; r < ranks.size(); ++r)
      if (ranks[r] != ranks[0])
        throw DeckError(fmt::format(
            "{}: deepspeed.zero_optimization.zero_quantized_gradients = true: {} ranks are on the "
            "node of rank {} and {} on that of rank 0: place as many on each node, or give "
            "machine.ranks_per_node",
            deck.path, ranks[r], r, ranks[0]));
  });
}

// Rank 0 predicts, since it reports.
void predict_on_machine(RunPlan& run, const World& world) {
  if (run.machine_file.empty()) return;
  world.peers.agree([&] {
    if (world.peers.rank() != 0) return;
    run.predictions = predict_run(run.loaded.deck, run.program, read_machine_file(run.machine_file),
                                  run.machine_file, run.profile.ranks_per_node);
  });
}

}  // namespace

RunPlan read_run(const RunArguments& arguments, const World& world) {
  Peers& peers = world.peers;
  RunPlan run;
  run.machine_file = arguments.machine;
  peers.agree([&] {
    run.fault = fault_from_environment(peers.size());
    run.loaded = read_deck(arguments.deck, arguments.sets, DeckUse::run, peers.size());
    run.batch = infer_batch(run.loaded.deck, peers.size());
    run.profile = run_profile(run.loaded.deck, world.node, peers.size());
  });
  const auto hashes = peers.gather(run.loaded.hash);  // a node may have a stale copy
  const auto hosts = peers.gather(world.node.host);
  peers.agree([&] {
    for (std::size_t r = 1; r < hashes.size(); ++r)
      if (hashes[r] != hashes[0])
        throw DeckError(fmt::format(
            "{}: rank {} (host {}) has another deck (hash {}) than rank 0 (host {}, hash "
            "{}): give all ranks the same file and arguments",
            run.loaded.deck.path, r, hosts[r], hashes[r], hosts[0], hashes[0]));
  });
  world.watch.set_timeout(run.loaded.deck.comm.timeout_s);
  world.guard.set_timeout(run.loaded.deck.comm.timeout_s);
  require_equal_nodes(run, peers);
  return run;
}

void plan_run(RunPlan& run, const World& world) {
  Peers& peers = world.peers;
  Deck& deck = run.loaded.deck;
  if (deck.model.fit) {
    const FitBudget budget = run_fit_budget(deck, run.profile.ranks_per_node, peers);
    peers.agree([&] {
      run.fit = apply_fit(deck, run.batch, peers.size(), run.profile, budget);
      require_a_layer(deck, *run.fit);
    });
  }
  refuse_states(run, world);
  peers.agree([&] {
    run.program = build_legal_program(deck, run.batch, peers.size(), peers.rank(), run.profile);
    if (run.fault.on(peers.rank()) != Fault::illegal_plan) return;
    break_plan(run.program);
    require_legal(check(run.program));
  });
  predict_on_machine(run, world);
}

void require_memory(RunPlan& run, const World& world) {
  world.peers.agree([&] {
    const Deck& deck = run.loaded.deck;
    run.budgets = run_budgets(deck, allocated_bytes(run.program), run.profile.ranks_per_node);
    if (refusal_of(run.program, run.budgets, world.node.ranks))
      throw MemoryError(
          deck.path + ": " +
          *refusal_of(run.program, run.budgets, world.node.ranks, remedies(run, world)));
  });
}

void find_class(RunPlan& run, const std::string& resumed_from, const World& world) {
  world.peers.agree([&] {
    if (world.peers.rank() != 0) return;
    const LoadedDeck& loaded = run.loaded;
    run.class_facts =
        facts_of(loaded, data_of(nlohmann::json::parse(loaded.used_json), loaded.deck.data.path),
                 &run.program, run.profile.ranks_per_node);
    run.class_facts.resumed_from = resumed_from;
    if (run.fault.kind != Fault::none)
      run.class_facts.fault = fmt::format("SHARDMARK_FAULT={}", to_string(run.fault));
    run.start_class = class_of(run.class_facts);
  });
}

namespace {

void require_backend(const Deck& deck, const Node& node, int world) {
  const BackendTraits& backend = traits(deck.comm.backend);
  if (backend.one_rank && world > 1)
    throw DeckError(
        fmt::format("{}: comm.backend = \"{}\": {} ranks: must be one: start one rank, "
                    "or give \"shm\", \"mpi\" or \"auto\"",
                    deck.path, backend.name, world));
  if (backend.one_node && node.ranks < world)
    throw DeckError(
        fmt::format("{}: comm.backend = \"{}\": {} of {} ranks are on {}: all must share one node: "
                    "give \"mpi\" or \"auto\"",
                    deck.path, backend.name, node.ranks, world, node.host));
  if (backend.needs_nccl && nccl_library().empty())
    throw DeckError(fmt::format(
        "{}: comm.backend = \"{}\": this build has no NCCL: give \"auto\" or \"mpi\", or build "
        "with a Kokkos that computes on GPUs (docs/gpus.md)",
        deck.path, backend.name));
  if (!backend.ordered_sums && deck.run.reductions == Reductions::ordered)
    throw DeckError(fmt::format(
        "{}: comm.backend = \"{}\" with run.reductions = \"ordered\": not modelled yet: give "
        "\"native\", or \"mpi\"",
        deck.path, backend.name));
}

}  // namespace

Profile run_profile(const Deck& deck, const Node& node, int world) {
  require_backend(deck, node, world);
  if (!device_is_host && (deck.zero.offload_optimizer.nvme || deck.zero.offload_param.nvme))
    throw DeckError(
        fmt::format("{}: deepspeed.zero_optimization: device = \"nvme\": states in files are not "
                    "supported on CUDA yet: give \"cpu\"",
                    deck.path));
  if (const Fault fault = fault_from_environment(world).kind;
      !device_is_host && fault != Fault::none && fault != Fault::leak && fault != Fault::nan &&
      fault != Fault::extra_call && fault != Fault::extra_copy && fault != Fault::illegal_plan)
    throw DeckError(
        fmt::format("environment: SHARDMARK_FAULT = {}: not supported on CUDA yet: it reads "
                    "buffers of the device: give leak, nan, extra_call, extra_copy or illegal_plan",
                    to_string(fault)));
  Profile profile;
  profile.ranks_per_node = node.ranks;
  // Measured with oneDNN 2.6 on GPT-2's shapes: the default is enough for packed pieces with one
  // thread, and each further thread needs at most 1.7 MB more.
  if (device_is_host)
    profile.workspace_cap_bytes += (concurrency(Space()) - 1) * (std::int64_t{2} << 20);
  else
    profile.workspace_cap_bytes = std::int64_t{32} << 20;  // the most that cuBLASLt asks for
  return profile;
}

}  // namespace shardmark
