// SPDX-License-Identifier: Apache-2.0
// How a timed step compares with the same step made again, and what the proof of the collectives
// covered.
#pragma once

#include <cstdint>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <miniapp/prove/state_sketch.hpp>

namespace shardmark {

/// What a rank keeps of one step: its loss, and sketches of its fp32 states after the step, in
/// which parameters count as masters. A step whose replay begins without moments keeps no sketch of
/// these.
struct StepOutcome {
  bool updated = false;
  double loss = 0;  // NaN if nothing is trained
  EnumArray<State, StateSketch> states{};
  double norm = 0;  // of all ranks' gradients, by which clipping divides them
};

/// By how much the step and its replay may differ, relative to the norm of what they compute.
struct ReplayBounds {
  double loss, gradient, update;
};
/// The bounds where gradients of `reduced` type are summed over `ranks` ranks in an order that the
/// library chooses. A sum of n terms in any order differs by at most (n - 1) u sum |x|, u being the
/// unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, §4.2); 16 stands for
/// terms that cancel. Adam divides by the root of the variance, so small gradients may change an
/// update by more than that: it may differ by a tenth of its norm. With `ordered` reductions,
/// nothing may.
ReplayBounds replay_bounds(Reductions reductions, Dtype reduced, Dtype computed, int ranks);

/// The replayed step, for the report and the verdict.
struct ReplayResult {
  std::int64_t step = -1;
  std::string unused = "no step was drawn";  // why none was made again; empty: one was
  std::string wrong;                         // of the lowest rank whose step differs; empty: none
  double gradient = 0;  // the largest difference of gradients that a rank found, relative
  double bound = 0;     // that ReplayBounds::gradient allows
  double norm = 0;      // the difference of the norms where Muon's updates are in them, relative
};

/// How the gradient of a step shows in the states: as the difference of `state` after the step and
/// `decay` times the same before it.
struct GradientTrace {
  State state = State::momentum;
  double decay = 0.9;
  double errors = 1;  // by how much that difference multiplies the gradient's relative error
  double update = 0;  // a larger bound of the update than ReplayBounds has, where one is needed
  double norm = 0;    // how much the norm that divides the gradients may differ, relative, where it
                      // contains more than they do. That difference is no error of the gradients
};
GradientTrace gradient_trace(const OptimizerSpec& optimizer, double clipping);

/// Returns the largest relative difference between the gradients of a step and of its replay that
/// passes, as far as `trace` shows them. The norms of the two differ by `norm`, relative.
double gradient_bound(const ReplayBounds& bounds, const GradientTrace& trace, double norm);

/// Compares what this rank has kept. `before` is the state before the step. Fills `gradient` and
/// `wrong`.
void compare_steps(const StepOutcome& before, const StepOutcome& run, const StepOutcome& again,
                   const GradientTrace& trace, const ReplayBounds& bounds, ReplayResult& result);

/// Compares a step of Adam or AdamW with its replay in the same way, if the replay began with
/// moments of zero and reductions are not `ordered`. Then `again` has what the gradients alone add
/// to both moments. What the run added follows from its sketches before and after the step, since a
/// moment is linear in what is added. The squares in the variance may differ by four times the
/// bound, as those of Adagrad. What the step made of the parameters is proved elsewhere
/// (step_prover.hpp).
void compare_moments(const StepOutcome& before, const StepOutcome& run, const StepOutcome& again,
                     const OptimizerSpec& optimizer, const ReplayBounds& bounds,
                     ReplayResult& result);

/// Sketches of the parameters that a step of this rank updated: before it, after it, and what the
/// update makes of those before it, given the moments after it.
struct UpdateSketches {
  StateSketch before, after, expected;
};
/// Says by how much updates differ from what they have to be, bit for bit; empty: not at all.
std::string compare_updates(const UpdateSketches& updates);

/// "step 17, made again from its saved states under ordered reductions, …".
std::string describe(const ReplayResult& replay);

/// How many timed steps and collectives were proved, and what that cost.
struct ProofResult {
  std::int64_t timed_steps = 0, proved_steps = 0;
  std::int64_t period = 1;       // one step in each run of so many timed steps is proved
  std::int64_t collectives = 0;  // that were proved in timed steps, on this rank
  double cost = 0;               // of the timed span, the part that the proof took on this rank
  std::uint64_t seed = 0;        // from which the steps and the keys were drawn
};

/// Whether timed step number `timed` (from 0) is proved: one step in each run of `period` steps is,
/// drawn by the seed. Pure.
bool is_proved(const ProofResult& proof, std::int64_t timed);

/// "every collective of 20 of 20 timed steps delivered what was sent (…)".
std::string describe(const ProofResult& proof);

}  // namespace shardmark
