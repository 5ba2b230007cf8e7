// SPDX-License-Identifier: Apache-2.0
// Rule: a sketch gives the norm of a difference; a replayed step passes within the rounding of its
// sums, and fails beyond it, naming what differs, whether it began with the moments or without.
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <miniapp/prove/replay_result.hpp>

namespace shardmark::test::replay_result_test {
namespace {

constexpr double decay = 0.9;
constexpr std::int64_t elems = 5000;

std::vector<float> wave(double amplitude, double frequency) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < elems; ++i)
    values.push_back(static_cast<float>(amplitude * std::sin(frequency * static_cast<double>(i))));
  return values;
}

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares);
}

// Adds the elements `first_elem`, `first_elem` + 1, … of a state.
void add(StateSketch& sketch, std::span<const float> values, std::int64_t first_elem = 0) {
  sketch_on_host(values.data(), std::ssize(values), first_elem, sketch.sums);
}

StateSketch sketch_of(const std::vector<float>& values) {
  StateSketch sketch;
  add(sketch, values);
  return sketch;
}

TEST(Sketch, gives_the_norm_of_a_difference) {
  const std::vector<float> a = wave(1, 0.1), b = wave(1e-3, 0.7);
  std::vector<float> sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  const double difference = combine(sketch_of(sum), sketch_of(a), -1).norm();
  EXPECT_NEAR(difference, norm_of(b), 0.5 * norm_of(b));
  EXPECT_NEAR(sketch_of(a).norm(), norm_of(a), 0.5 * norm_of(a));
}

// A rank's elements come in pieces of any length.
TEST(Sketch, does_not_depend_on_the_pieces) {
  const std::vector<float> values = wave(1, 0.1);
  for (const std::size_t cut : {1, 7, 8, 2501}) {
    StateSketch pieces;
    add(pieces, {values.data(), cut});
    add(pieces, {values.data() + cut, values.size() - cut}, static_cast<std::int64_t>(cut));
    for (std::size_t i = 0; i < StateSketch::buckets; ++i)
      EXPECT_NEAR(pieces.sums[i], sketch_of(values).sums[i], 1e-12);
  }
}

// A step with Adam whose gradient has the error `wrong`, relative to its norm.
StepOutcome step(double wrong, double rate = 1e-3) {
  const std::vector<float> gradient = wave(1, 0.1), error = wave(wrong, 0.7);
  std::vector<float> momentum, variance, master;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i] + error[i];
    momentum.push_back(0.1F * g);
    variance.push_back(0.001F * g * g);
    master.push_back(1.0F - static_cast<float>(rate) * g);
  }
  return {
      true, 2.5, {{StateSketch{}, sketch_of(master), sketch_of(momentum), sketch_of(variance)}}};
}

StepOutcome start() {
  StepOutcome before;
  before.states[State::master] = sketch_of(std::vector<float>(elems, 1.0F));
  return before;
}

std::string wrong_of(const StepOutcome& run, Reductions reductions, int ranks = 2,
                     Dtype reduced = Dtype::fp32) {
  ReplayResult result;
  compare_steps(start(), run, step(0), {State::momentum, decay},
                replay_bounds(reductions, reduced, Dtype::fp32, ranks), result);
  return result.wrong;
}

TEST(Replay, passes_within_rounding_and_fails_beyond) {
  EXPECT_EQ(wrong_of(step(0), Reductions::ordered), "");
  EXPECT_EQ(wrong_of(step(1e-6), Reductions::native), "");
  EXPECT_NE(wrong_of(step(1e-5), Reductions::native).find("the gradients differ"),
            std::string::npos);
  EXPECT_EQ(wrong_of(step(1e-5), Reductions::native, 64), "") << "more terms round more";
  EXPECT_EQ(wrong_of(step(1e-2), Reductions::native, 2, Dtype::bf16), "");
  EXPECT_NE(wrong_of(step(1e-6), Reductions::ordered), "");
}

TEST(Replay, sees_an_update_that_does_not_follow_from_the_gradients) {
  EXPECT_NE(wrong_of(step(0, 1.01e-3), Reductions::native).find("the updates of the parameters"),
            std::string::npos);
}

TEST(Replay, sees_another_loss_and_a_step_that_was_skipped) {
  StepOutcome other = step(0);
  other.loss = 2.51;
  EXPECT_EQ(wrong_of(other, Reductions::native),
            "the loss was 2.51, but is 2.5 when the step is made again");
  StepOutcome skipped = step(0);
  skipped.updated = false;
  EXPECT_NE(wrong_of(skipped, Reductions::native).find("was skipped"), std::string::npos);
}

// Where the optimizer keeps no momentum, the gradient shows in another state, whose errors count.
TEST(Replay, sees_gradients_in_the_states_that_the_optimizer_has) {
  for (const Optimizer type : all_values<Optimizer>) {
    OptimizerSpec spec;
    spec.type = type;
    spec.momentum = 0.9;
    GradientTrace trace = gradient_trace(spec, 0);
    if (trace.state != State::master) {
      EXPECT_TRUE(has_moment(type, trace.state)) << to_string(type);
    }
    const auto judged = [&](const StepOutcome& run) {
      ReplayResult result;
      compare_steps(start(), run, step(0), trace,
                    replay_bounds(Reductions::native, Dtype::fp32, Dtype::fp32, 2), result);
      return result.wrong;
    };
    EXPECT_EQ(judged(step(0)), "") << to_string(type);
    EXPECT_EQ(judged(step(1e-6)), "") << to_string(type);
    EXPECT_NE(judged(step(3e-2)), "") << to_string(type);
  }
}

// With Muon the norm that clips the gradients contains updates, which rounding changes by more.
TEST(Replay, allows_gradients_that_were_clipped_by_another_norm) {
  OptimizerSpec muon;
  muon.type = Optimizer::muon;
  muon.momentum = 0.9;
  const auto judged = [&](double gradient, double norm, double clipping) {
    StepOutcome run = step(gradient), again = step(0);
    run.norm = 20 * (1 + norm), again.norm = 20;
    ReplayResult result;
    compare_steps(start(), run, again, gradient_trace(muon, clipping),
                  replay_bounds(Reductions::native, Dtype::fp32, Dtype::fp32, 2), result);
    EXPECT_NEAR(result.norm, clipping > 0 ? norm : 0, 1e-12);
    return result.wrong;
  };
  EXPECT_EQ(judged(5e-4, 1e-3, 1), "");
  EXPECT_NE(judged(5e-4, 1e-3, 0).find("the gradients differ"), std::string::npos);
  EXPECT_NE(judged(5e-4, 1e-5, 1).find("the gradients differ"), std::string::npos);
  EXPECT_NE(judged(0, 0.1, 1).find("the norms differ"), std::string::npos);
}

// A step of Adam from moments that are `history` times those of an earlier gradient. Its gradient
// has the error `wrong`, and the squares have another one.
StepOutcome with_history(float history, double wrong = 0, float wrong_squares = 1) {
  const std::vector<float> gradient = wave(1, 0.1), error = wave(wrong, 0.7), old = wave(1, 0.3);
  std::vector<float> momentum, variance;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i] + error[i], m = history * old[i];
    momentum.push_back(0.9F * m + static_cast<float>(1 - 0.9) * g);
    variance.push_back(0.999F * m * m + static_cast<float>(1 - 0.999) * g * g * wrong_squares);
  }
  return {true, 2.5, {{StateSketch{}, StateSketch{}, sketch_of(momentum), sketch_of(variance)}}};
}

StepOutcome moments(float history) {
  const std::vector<float> old = wave(1, 0.3);
  std::vector<float> momentum, variance;
  for (const float x : old) {
    momentum.push_back(history * x);
    variance.push_back(history * x * history * x);
  }
  return {true, 2.5, {{StateSketch{}, StateSketch{}, sketch_of(momentum), sketch_of(variance)}}};
}

ReplayResult without_moments(const StepOutcome& before, const StepOutcome& run,
                             const StepOutcome& again, int ranks = 2) {
  ReplayResult result;
  compare_moments(before, run, again, {},
                  replay_bounds(Reductions::native, Dtype::fp32, Dtype::fp32, ranks), result);
  return result;
}

// The replay has what the gradient adds to moments of zero; the run has added it to others.
TEST(ReplayWithoutMoments, sees_what_a_gradient_added_to_moments) {
  const StepOutcome before = moments(0.3F), again = with_history(0);
  EXPECT_EQ(without_moments(before, with_history(0.3F), again).wrong, "");
  EXPECT_EQ(without_moments(before, with_history(0.3F, 1e-6), again).wrong, "");
  EXPECT_NE(without_moments(before, with_history(0.3F, 1e-5), again).wrong.find("the gradients"),
            std::string::npos);
  EXPECT_EQ(without_moments(before, with_history(0.3F, 1e-5), again, 64).wrong, "");
  EXPECT_NE(without_moments(before, with_history(0.3F, 0, 1.01F), again)
                .wrong.find("the squares of the gradients differ"),
            std::string::npos);
  EXPECT_NE(without_moments(moments(0.31F), with_history(0.3F), again).wrong, "")
      << "a moment that is not that of the step before";
  EXPECT_NE(without_moments(before, with_history(0.3F, 1e-5), again).gradient, 0);
}

TEST(ReplayWithoutMoments, sees_that_a_skipped_step_left_moments_alone) {
  const auto skipped = [](StepOutcome step) {
    step.updated = false;
    return step;
  };
  const StepOutcome before = moments(0.3F), again = skipped({});
  StepOutcome same_loss = again;
  same_loss.loss = 2.5;
  EXPECT_EQ(without_moments(before, skipped(before), same_loss).wrong, "");
  EXPECT_NE(without_moments(before, skipped(with_history(0.3F)), same_loss).wrong, "");
  EXPECT_NE(without_moments(before, with_history(0.3F), same_loss).wrong.find("was skipped"),
            std::string::npos);
  EXPECT_NE(without_moments(before, skipped(before), again).wrong.find("the loss was 2.5"),
            std::string::npos);
}

TEST(ReplayWithoutMoments, sees_one_bit_of_an_update) {
  std::vector<float> before = wave(1, 0.1), expected = before, other = before;
  for (std::size_t i = 0; i < before.size(); ++i) expected[i] = other[i] = before[i] * 0.999F;
  EXPECT_EQ(compare_updates({sketch_of(before), sketch_of(other), sketch_of(expected)}), "");
  other[17] = std::nextafter(other[17], 2.0F);
  EXPECT_NE(compare_updates({sketch_of(before), sketch_of(other), sketch_of(expected)})
                .find("the updates of the parameters differ by"),
            std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::replay_result_test
