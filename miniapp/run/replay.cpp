// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <optional>

#include <fmt/core.h>

#include <core/memory/budget.hpp>
#include <core/nn/optimizer/sketch.hpp>
#include <core/plan/deck/lr_schedule.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/plan/plan.hpp>
#include <core/random.hpp>
#include <core/text.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/models/state_kernels.hpp>
#include <miniapp/prove/state_hash.hpp>
#include <miniapp/prove/step_prover.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/run/replay.hpp>

namespace shardmark {
namespace {

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
  program.zero_is_positive = p.zero_is_positive;
  require_legal(check(program));
  return program;
}

// Whether init leaves copies of states alive that the end of a step drops.
bool drops_copies(const Program& p) {
  return std::ranges::any_of(p.copies, [&](const StatePiece& copy) {
    return std::ranges::any_of(p.steps, [&](const Step& step) {
      const std::vector<std::int32_t>& alive = p.segments[step.update].exit.alive;
      return std::find(alive.begin(), alive.end(), copy.slot) == alive.end();
    });
  });
}

// Whether ranks have copies of parameters that other ranks update. The same on all ranks.
bool gathers_updates(const Program& p) {
  return p.precision.model == Dtype::fp32 && p.sharded[State::master] && !p.sharded[State::param];
}

}  // namespace

// Plans the step under `ordered`. Returns a reason why this rank cannot make it; empty if it can.
std::string StepReplay::plan() {
  if (run_.program.world > 1 && run_.loaded.deck.zero.knobs.quantized_weights)
    return "quantized gathers of a first step, which a replay is, have other groups than later "
           "ones";
  if (drops_copies(run_.program))
    return "a first step, which a replay is, gathers parameters from secondary copies, which later "
           "ones do not have";
  try {
    deck_ = deck_of_replay(run_.loaded.deck);
    program_ = program_of_replay(run_, deck_);
    const int ranks = world_.node.ranks;
    auto refusal = over_budget(program_, run_.budgets.bytes, ranks);
    if (!refusal && run_.budgets.shared)
      refusal = over_shared_budget(program_, *run_.budgets.shared, ranks);
    if (refusal) return "under ordered reductions, a step needs more memory than the budget";
    const std::int64_t needed =
        KeptStates::bytes_to_keep(run_.program, session_.executor(), with_moments_);
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
  const RunSpec& spec = run_.loaded.deck.run;
  with_moments_ = spec.reductions == Reductions::ordered || spec.compute != Compute::train ||
                  !can_leave_moments_out(run_.program);
  result_.unused = world_.peers.first_text(plan());
  if (!result_.unused.empty()) return;
  const std::uint64_t seed = shared_seed(world_.peers);
  result_.step =
      first + static_cast<std::int64_t>(splitmix64(seed) % static_cast<std::uint64_t>(steps));
}

// States of 16 bits are left out: they are rounded from others, or compared by the replicas' check.
StepOutcome StepReplay::outcome(const Context& context, const Program& program,
                                const Executor& executor) const {
  StepOutcome outcome;
  for (const WantedElements& w : wanted_states(program, executor)) {
    if (w.dtype != Dtype::fp32 || (!with_moments_ && !is_moment(w.state))) continue;
    sketch_state(context, reinterpret_cast<const float*>(w.into), w.elems, w.first_elem,
                 outcome.states[is_moment(w.state) ? w.state : State::master].sums);
  }
  return outcome;
}

void StepReplay::before_step() {
  position_ = session_.steps().position();
  kept_.keep(run_.program, session_.executor(), with_moments_);
  before_ = outcome(session_.context(), run_.program, session_.executor());
}

// The rate and the number of the update are those of the deck, whatever the session took.
std::string StepReplay::prove_update(bool updated) const {
  const Program& program = run_.program;
  const ZeroSpec& zero = run_.loaded.deck.zero;
  std::optional<AdamWStep> step;
  if (updated)
    step = adamw_step(zero.optimizer, lr_at(zero.scheduler, zero.optimizer.lr, position_.updates),
                      position_.updates + program.start_up_updates + 1);
  // Without the session's polls, whose time would count as communication of the step.
  const Context context{session_.context().space, session_.matmul()};
  const std::string wrong =
      compare_updates(sketch_updates(context, kept_.updated(program, session_.executor()), step));
  if (!wrong.empty()) return wrong;
  const std::string strayed = kept_.strayed(program, session_.executor());
  return strayed.empty() ? "" : "after the update, " + strayed;
}

void StepReplay::after_step(double loss, double norm, bool updated) {
  ran_ = outcome(session_.context(), run_.program, session_.executor());
  ran_.loss = loss;
  ran_.norm = norm;
  ran_.updated = updated;
  done_ = true;
  if (with_moments_) return;
  wrong_update_ = prove_update(updated);
  if (!gathers_updates(run_.program)) return;
  const StateHashes hashes =
      hash_states(session_.context(), run_.program, session_.executor(), world_.peers);
  if (wrong_update_.empty() && !hashes.disagreement.empty())
    wrong_update_ = "after the update, " + hashes.disagreement;
}

ReplayResult StepReplay::again(bool stopped) {
  if (stopped && result_.unused.empty()) result_.unused = "the run was stopped";
  if (!done_ && result_.unused.empty()) result_.unused = "the drawn step was not reached";
  if (!result_.unused.empty()) return result_;
  session_.close();
  CommCounters counters;
  Proof proof(proof_options(deck_));
  auto lane = make_run_lane(deck_, world_.comm, world_.watch, {}, counters);
  const bool proved = world_.peers.size() > 1;
  if (proved) lane = make_proved_lane(std::move(lane), world_.peers, proof);
  const Lanes lanes(std::move(lane), program_);
  // The deck of the run decides what follows DeepSpeed; the plan decides the order of sums.
  Context context{Space(), session_.matmul()};
  Session session(
      run_.loaded.deck, program_, lanes, context,
      SessionOptions{.model = make_model(deck_, program_, context), .idle = world_.watch.idle()});
  session.steps().init();
  kept_.restore(program_, session.executor());
  session.steps().resume(position_, true);
  DataWitness witness;
  StepProver prover(proved ? &proof : nullptr, witness, world_.peers, program_.mesh.sharing());
  prover.begin(result_.step);
  const bool updated = session.steps().step(result_.step);
  prover.end();
  StepOutcome again = outcome(context, program_, session.executor());
  again.loss = session.executor().loss();
  again.norm = session.executor().norm();
  again.updated = updated;
  const PrecisionSpec& precision = deck_.zero.precision;
  const ReplayBounds bounds = replay_bounds(run_.loaded.deck.run.reductions, precision.comm,
                                            precision.computes_in(), world_.peers.size());
  if (with_moments_)
    compare_steps(before_, ran_, again,
                  gradient_trace(deck_.zero.optimizer, deck_.zero.gradient_clipping), bounds,
                  result_);
  else
    compare_moments(before_, ran_, again, deck_.zero.optimizer, bounds, result_);
  if (result_.wrong.empty()) result_.wrong = wrong_update_;
  if (const std::string wrong = world_.peers.first_text(result_.wrong); !wrong.empty())
    result_.wrong = fmt::format("step {}, {}", result_.step, wrong);
  if (const std::string failure = prover.first_failure(); !failure.empty())
    result_.wrong = "the step that was made again received wrong values: " + failure;
  result_.gradient = world_.peers.max(result_.gradient);
  return result_;
}

}  // namespace shardmark
