// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/random.hpp>
#include <miniapp/prove/replay_result.hpp>

namespace shardmark {

namespace {

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return 0x1p-8;
    case Dtype::fp16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

// The norm of the difference of two sketched vectors, relative to the second. `rounding` is what
// storing the state in fp32 may have changed in both.
double relative(const StateSketch& a, const StateSketch& b, double rounding) {
  const double difference = std::max(0.0, combine(a, b, -1).norm() - rounding);
  return difference == 0 ? 0 : difference / std::max(b.norm(), 1e-300);
}

// Whether both steps updated the states, and had the same loss.
bool same_course(const StepOutcome& run, const StepOutcome& again, double most_loss,
                 ReplayResult& result) {
  if (run.updated != again.updated)
    result.wrong = run.updated ? "the step updated the states, but its replay was skipped"
                               : "the step was skipped, but its replay updated the states";
  else if (std::abs(run.loss - again.loss) > most_loss * std::abs(again.loss))
    result.wrong = fmt::format("the loss was {:.9g}, but is {:.9g} when the step is made again",
                               run.loss, again.loss);
  return result.wrong.empty();
}

void require(const char* what, double have, double most, ReplayResult& result) {
  if (have <= most || !result.wrong.empty()) return;
  result.wrong = fmt::format(
      "{} differ by {:.3g} of their norm when the step is made again, at most {:.3g} is rounding",
      what, have, most);
}

constexpr double stored_rounding = 0x1p-22;  // what storing a state in fp32 may change, relative
constexpr double squared_errors = 4;         // of sums of squares, above all where few are large
constexpr double norm_of_updates = 0x1p-4;   // what rounding in bf16 may change, relative

}  // namespace

ReplayBounds replay_bounds(Reductions reductions, Dtype reduced, Dtype computed, int ranks) {
  if (reductions == Reductions::ordered) return {0, 0, 0};
  return {4 * unit_roundoff(computed), 16 * ranks * unit_roundoff(reduced), 0.1};
}

// Muon makes all singular values of a gradient equal, those that are nothing but rounding too. Its
// other parameters have AdamW's momentum, which decays at another rate, so that in a steady state
// their gradients show in another proportion. The norm by which these gradients are clipped
// contains Muon's updates, made by products of bf16.
// Lion moves each element by the sign of its momentum, and an element whose gradient is nothing but
// rounding may take either sign. Adagrad adds squares, whose errors are larger, above all where few
// elements make up the norm.
GradientTrace gradient_trace(const OptimizerSpec& optimizer, double clipping) {
  switch (traits(optimizer.type).kernel) {
    case Kernel::lion: return {State::momentum, optimizer.beta2, 1, 0.5};
    case Kernel::adagrad: return {State::variance, 1, squared_errors};
    case Kernel::sgd:
      if (has_moment(optimizer.type, State::momentum)) return {State::momentum, optimizer.momentum};
      return {State::master, 1};
    case Kernel::muon: {
      const double shown = (1 - optimizer.beta1) / std::max(1e-3, 1 - optimizer.momentum);
      return {State::momentum, optimizer.momentum, std::max(1.0, shown), 0.5,
              clipping > 0 ? norm_of_updates : 0};
    }
    default: return {State::momentum, optimizer.beta1};
  }
}

double gradient_bound(const ReplayBounds& bounds, const GradientTrace& trace, double norm) {
  return bounds.gradient > 0 ? trace.errors * (bounds.gradient + norm) : 0;
}

void compare_steps(const StepOutcome& before, const StepOutcome& run, const StepOutcome& again,
                   const GradientTrace& trace, const ReplayBounds& bounds, ReplayResult& result) {
  if (trace.norm > 0 && run.updated && again.updated && again.norm > 0)
    result.norm = std::abs(run.norm - again.norm) / again.norm;
  result.bound = gradient_bound(bounds, trace, result.norm);
  if (!same_course(run, again, bounds.loss, result)) return;
  const bool exact = bounds.update == 0;
  const double rounding = exact ? 0 : stored_rounding;
  const auto gradient = [&](const StepOutcome& after) {
    return combine(after.states[trace.state], before.states[trace.state], -trace.decay);
  };
  const auto update = [&](const StepOutcome& after) {
    return combine(after.states[State::master], before.states[State::master], -1);
  };
  result.gradient =
      relative(gradient(run), gradient(again), rounding * again.states[trace.state].norm());
  const double updates =
      relative(update(run), update(again), rounding * again.states[State::master].norm());
  // Equal gradients of one rank's shard give equal updates: nothing is summed any more.
  const bool same_gradients = run.states[State::momentum] == again.states[State::momentum] &&
                              run.states[State::variance] == again.states[State::variance];
  // Where the gradients show in the parameters themselves, the bound of gradients is the stricter.
  const bool follows = same_gradients && trace.state != State::master;
  const double most_update = follows || exact ? 0 : std::max(bounds.update, trace.update);
  if (!exact) require("the norms", result.norm, trace.norm, result);
  require("the gradients", result.gradient, result.bound, result);
  require("the updates of the parameters", updates, most_update, result);
  if (result.wrong.empty() && exact && !same_gradients)
    result.wrong = "the optimizer's moments differ when the step is made again";
}

// The kernel has the factors of the moments in fp32. A step that is skipped leaves both alone.
void compare_moments(const StepOutcome& before, const StepOutcome& run, const StepOutcome& again,
                     const OptimizerSpec& optimizer, const ReplayBounds& bounds,
                     ReplayResult& result) {
  result.bound = bounds.gradient;
  if (!same_course(run, again, bounds.loss, result)) return;
  const auto differ = [&](State state, double beta) {
    const StateSketch &old = before.states[state], &now = run.states[state];
    const double kept = run.updated ? static_cast<double>(static_cast<float>(beta)) : 1;
    return relative(combine(now, old, -kept), again.states[state],
                    stored_rounding * std::max(old.norm(), now.norm()));
  };
  result.gradient = differ(State::momentum, optimizer.beta1);
  require("the gradients", result.gradient, result.bound, result);
  require("the squares of the gradients", differ(State::variance, optimizer.beta2),
          squared_errors * bounds.gradient, result);
}

std::string compare_updates(const UpdateSketches& u) {
  if (u.after == u.expected) return {};
  const double update = combine(u.expected, u.before, -1).norm();
  return fmt::format(
      "the updates of the parameters differ by {:.3g} of their norm from what the moments make of "
      "the parameters before the step",
      combine(u.after, u.expected, -1).norm() / std::max(update, 1e-300));
}

std::string describe(const ReplayResult& replay) {
  return fmt::format(
      "timed step {}, made again from its saved states under ordered reductions, gave the same "
      "loss and {}",
      replay.step,
      replay.bound == 0 ? "the same states"
                        : fmt::format("gradients within {:.2g} of their norm (at most {:.2g})",
                                      replay.gradient, replay.bound));
}

// The last run of steps may be shorter than the others; one of its steps is still drawn.
bool is_proved(const ProofResult& proof, std::int64_t timed) {
  if (timed < 0 || timed >= proof.timed_steps || proof.period < 1) return false;
  const std::int64_t window = timed / proof.period, first = window * proof.period;
  const std::int64_t length = std::min(proof.period, proof.timed_steps - first);
  const std::uint64_t random = splitmix64(proof.seed + static_cast<std::uint64_t>(window));
  return timed - first == static_cast<std::int64_t>(random % static_cast<std::uint64_t>(length));
}

std::string describe(const ProofResult& proof) {
  const std::string chance =
      proof.period > 1
          ? fmt::format("; a fault in a single step is seen with probability 1/{}", proof.period)
          : "";
  return fmt::format(
      "{} collectives of {} of {} timed steps delivered what was sent{}; {:.2f} % of the time",
      proof.collectives, proof.proved_steps, proof.timed_steps, chance, 100 * proof.cost);
}

}  // namespace shardmark
