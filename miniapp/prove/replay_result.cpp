// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

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

const StateSketch& of(const StepOutcome& outcome, State state) {
  switch (state) {
    case State::momentum: return outcome.momentum;
    case State::variance: return outcome.variance;
    default: return outcome.master;
  }
}

// The norm of the difference of two sketched vectors, relative to the second. `rounding` is what
// storing the state in fp32 may have changed in both.
double relative(const StateSketch& a, const StateSketch& b, double rounding) {
  const double difference = std::max(0.0, combine(a, b, -1).norm() - rounding);
  return difference == 0 ? 0 : difference / std::max(b.norm(), 1e-300);
}

}  // namespace

ReplayBounds replay_bounds(Reductions reductions, Dtype reduced, Dtype computed, int ranks) {
  if (reductions == Reductions::ordered) return {0, 0, 0};
  return {4 * unit_roundoff(computed), 16 * ranks * unit_roundoff(reduced), 0.1};
}

// Muon makes all singular values of a gradient equal, those that are nothing but rounding too. Its
// other parameters have AdamW's momentum, of which more is new.
// Lion moves each element by the sign of its momentum, and an element whose gradient is nothing but
// rounding may take either sign. Adagrad adds squares, whose errors are larger, above all where few
// elements make up the norm.
GradientTrace gradient_trace(const OptimizerSpec& optimizer) {
  switch (traits(optimizer.type).kernel) {
    case Kernel::lion: return {State::momentum, optimizer.beta2, 1, 0.5};
    case Kernel::adagrad: return {State::variance, 1, 4};
    case Kernel::sgd:
      if (has_moment(optimizer.type, State::momentum)) return {State::momentum, optimizer.momentum};
      return {State::master, 1};
    case Kernel::muon: return {State::momentum, optimizer.momentum, 1, 0.5};
    default: return {State::momentum, optimizer.beta1};
  }
}

void compare_steps(const StepOutcome& before, const StepOutcome& run, const StepOutcome& again,
                   const GradientTrace& trace, const ReplayBounds& bounds, ReplayResult& result) {
  result.bound = bounds.gradient * trace.errors;
  if (run.updated != again.updated) {
    result.wrong = run.updated ? "the step updated the states, but its replay was skipped"
                               : "the step was skipped, but its replay updated the states";
    return;
  }
  if (std::abs(run.loss - again.loss) > bounds.loss * std::abs(again.loss)) {
    result.wrong = fmt::format("the loss was {:.9g}, but is {:.9g} when the step is made again",
                               run.loss, again.loss);
    return;
  }
  const bool exact = bounds.update == 0;
  const double rounding = exact ? 0 : 0x1p-22;
  const auto gradient = [&](const StepOutcome& after) {
    return combine(of(after, trace.state), of(before, trace.state), -trace.decay);
  };
  const auto update = [&](const StepOutcome& after) {
    return combine(after.master, before.master, -1);
  };
  result.gradient =
      relative(gradient(run), gradient(again), rounding * of(again, trace.state).norm());
  const double updates = relative(update(run), update(again), rounding * again.master.norm());
  // Equal gradients of one rank's shard give equal updates: nothing is summed any more.
  const bool same_gradients = run.momentum == again.momentum && run.variance == again.variance;
  // Where the gradients show in the parameters themselves, the bound of gradients is the stricter.
  const bool follows = same_gradients && trace.state != State::master;
  const double most_update = follows || exact ? 0 : std::max(bounds.update, trace.update);
  const auto tell = [&](const char* what, double have, double bound) {
    result.wrong = fmt::format(
        "{} differ by {:.3g} of their norm when the step is made again, at most {:.3g} is rounding",
        what, have, bound);
  };
  if (!(result.gradient <= result.bound)) {
    tell("the gradients", result.gradient, result.bound);
  } else if (!(updates <= most_update)) {
    tell("the updates of the parameters", updates, most_update);
  } else if (exact && !same_gradients) {
    result.wrong = "the optimizer's moments differ when the step is made again";
  }
}

std::string describe(const ReplayResult& replay) {
  return fmt::format(
      "timed step {}, made again from its saved states under ordered reductions, gave the same "
      "loss "
      "and {}",
      replay.step,
      replay.bound == 0 ? "the same states"
                        : fmt::format("gradients within {:.2g} of their norm (at most {:.2g})",
                                      replay.gradient, replay.bound));
}

}  // namespace shardmark
