// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <exception>
#include <limits>

#include <fmt/core.h>

#include <core/memory/budget.hpp>
#include <core/memory/read_back.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/plan/plan.hpp>
#include <core/random.hpp>
#include <core/text.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/models/make_model.hpp>
#include <miniapp/prove/step_prover.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/ranks/shared_seed.hpp>
#include <miniapp/run/replay.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t chunk_elems = std::int64_t{1} << 18;  // of a sketch: a MiB on the host

// NCCL sums in its own order; MPI through the host does it in the order of the ranks.
Deck deck_of_replay(const Deck& run) {
  Deck deck = run;
  deck.run.reductions = Reductions::ordered;
  deck.comm.delay_ms = 0;
  deck.checkpoint = {};
  if (!device_is_host) deck.comm.backend = Backend::mpi;
  return deck;
}

Program program_of_replay(const RunPlan& run, const Deck& deck) {
  const Program& p = run.program;
  Program program = build_program(deck, run.batch, p.world, p.rank, run.profile);
  // What DeepSpeed does once at stage 0 and the plan under `ordered` does not. The states that are
  // restored contain its effect.
  program.start_up_updates = p.start_up_updates;
  program.scales_loss = p.scales_loss;
  require_legal(check(program));
  return program;
}

void fetch(const WantedElements& from, void* to, std::int64_t skip_bytes, std::int64_t bytes) {
  if (from.far != nullptr) return from.far->fetch(to, from.into + skip_bytes, bytes);
  std::memcpy(to, from.into + skip_bytes, static_cast<std::size_t>(bytes));
}

void put(const WantedElements& into, const std::vector<std::byte>& bytes) {
  if (into.far != nullptr)
    return into.far->put(into.into, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  std::memcpy(into.into, bytes.data(), bytes.size());
}

std::int64_t bytes_of(const WantedElements& wanted) {
  return wanted.elems * dtype_bytes(wanted.dtype);
}

double loss_of(const Executor& executor) {
  const int loss = executor.find_slot("loss");
  return loss < 0 ? std::numeric_limits<double>::quiet_NaN()
                  : read_back(Space(), executor.slot(loss).as<double>());
}

}  // namespace

// A reason why this rank cannot make a step again; empty if it can.
std::string StepReplay::reason_against() const {
  try {
    const Program program = program_of_replay(run_, deck_of_replay(run_.loaded.deck));
    const int ranks = world_.node.ranks;
    auto refusal = over_budget(program, run_.budgets.bytes, ranks);
    if (!refusal && run_.budgets.shared)
      refusal = over_shared_budget(program, *run_.budgets.shared, ranks);
    if (refusal) return "under ordered reductions, a step needs more memory than the budget";
    std::int64_t needed = 0;
    for (const WantedElements& w : wanted_states(run_.program, session_.executor()))
      needed += bytes_of(w);
    if (needed > find_memory(run_.profile.ranks_per_node).bytes / 2)
      return fmt::format("a copy of the states needs {}, more than half of the free memory",
                         human_bytes(needed));
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

void StepReplay::draw(std::int64_t first, std::int64_t steps) {
  result_.unused = steps < 1 ? "there are no timed steps" : "";
  if (steps < 1) return;
  const std::vector<std::string> reasons = world_.peers.gather(reason_against());
  for (std::size_t r = 0; r < reasons.size() && result_.unused.empty(); ++r)
    if (!reasons[r].empty()) result_.unused = fmt::format("rank {}: {}", r, reasons[r]);
  const std::uint64_t seed = shared_seed(world_.peers);
  if (!result_.unused.empty()) return;
  result_.step =
      first + static_cast<std::int64_t>(splitmix64(seed) % static_cast<std::uint64_t>(steps));
  for (const WantedElements& w : wanted_states(run_.program, session_.executor())) {
    kept_.push_back({w, std::vector<std::byte>(static_cast<std::size_t>(bytes_of(w)))});
    kept_bytes_ += bytes_of(w);
  }
}

// States of 16 bits are left out: they are rounded from others, or compared by the replicas' check.
StepOutcome StepReplay::sketch(const Program& program, const Executor& executor) const {
  StepOutcome outcome;
  std::vector<float> chunk(static_cast<std::size_t>(chunk_elems));
  for (const WantedElements& w : wanted_states(program, executor)) {
    if (w.dtype != Dtype::fp32) continue;
    StateSketch& sketch = w.state == State::momentum   ? outcome.momentum
                          : w.state == State::variance ? outcome.variance
                                                       : outcome.master;
    for (std::int64_t done = 0; done < w.elems; done += chunk_elems) {
      const std::int64_t n = std::min(chunk_elems, w.elems - done);
      fetch(w, chunk.data(), done * dtype_bytes(w.dtype), n * dtype_bytes(w.dtype));
      sketch.add({chunk.data(), static_cast<std::size_t>(n)}, w.first_elem + done);
    }
  }
  return outcome;
}

void StepReplay::before_step() {
  position_ = session_.steps().position();
  for (std::size_t i = 0;
       const WantedElements& w : wanted_states(run_.program, session_.executor()))
    fetch(w, kept_[i++].bytes.data(), 0, bytes_of(w));
  before_ = sketch(run_.program, session_.executor());
}

void StepReplay::after_step(double loss, bool updated) {
  ran_ = sketch(run_.program, session_.executor());
  ran_.loss = loss;
  ran_.updated = updated;
  done_ = true;
}

// Both programs have the same pieces of states, since how the sums are made moves none.
void StepReplay::restore(const Program& program, const Executor& executor) const {
  const std::vector<WantedElements> wanted = wanted_states(program, executor);
  for (std::size_t i = 0; i < std::max(wanted.size(), kept_.size()); ++i) {
    const bool same =
        i < wanted.size() && i < kept_.size() && wanted[i].state == kept_[i].where.state &&
        wanted[i].first_elem == kept_[i].where.first_elem &&
        wanted[i].elems == kept_[i].where.elems && wanted[i].dtype == kept_[i].where.dtype;
    if (!same) throw PlanError("replay: the plan under ordered reductions holds other states");
    put(wanted[i], kept_[i].bytes);
  }
}

ReplayResult StepReplay::again(bool stopped) {
  if (stopped && result_.unused.empty()) result_.unused = "the run was stopped";
  if (!done_ && result_.unused.empty()) result_.unused = "the drawn step was not reached";
  if (!result_.unused.empty()) return result_;
  const Deck deck = deck_of_replay(run_.loaded.deck);
  const Program program = program_of_replay(run_, deck);
  session_.close();
  CommCounters counters;
  Proof proof(proof_options(deck));
  auto lane = make_run_lane(deck, world_.comm, world_.watch, {}, counters);
  const bool proved = world_.peers.size() > 1;
  if (proved) lane = make_proved_lane(std::move(lane), world_.peers, proof);
  const Lanes lanes(std::move(lane), program);
  // The deck of the run decides what follows DeepSpeed; the plan decides the order of sums.
  Context context{Space(), session_.matmul()};
  Session session(
      run_.loaded.deck, program, lanes, context,
      SessionOptions{.model = make_model(deck, program, context), .idle = world_.watch.idle()});
  session.steps().init();
  restore(program, session.executor());
  session.steps().resume(position_, true);
  DataWitness witness;
  StepProver prover(proved ? &proof : nullptr, witness, world_.peers);
  prover.begin(result_.step);
  const bool updated = session.steps().step(result_.step);
  prover.end();
  StepOutcome again = sketch(program, session.executor());
  again.loss = loss_of(session.executor());
  again.updated = updated;
  const PrecisionSpec& precision = deck.zero.precision;
  compare_steps(before_, ran_, again, deck.zero.optimizer.beta1,
                replay_bounds(run_.loaded.deck.run.reductions, precision.comm,
                              precision.computes_in(), world_.peers.size()),
                result_);
  const std::vector<std::string> wrong = world_.peers.gather(result_.wrong);
  result_.wrong.clear();
  for (std::size_t r = 0; r < wrong.size() && result_.wrong.empty(); ++r)
    if (!wrong[r].empty())
      result_.wrong = fmt::format("step {}, rank {}: {}", result_.step, r, wrong[r]);
  if (const std::string failure = prover.first_failure(); !failure.empty())
    result_.wrong = "the step that was made again received wrong values: " + failure;
  result_.gradient = world_.peers.max(result_.gradient);
  return result_;
}

}  // namespace shardmark
