// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>

#include <miniapp/tools/sweep/point.hpp>

namespace shardmark {

std::int64_t PlanFigures::calls() const {
  return std::accumulate(step.begin(), step.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& op) { return sum + op.second.calls; });
}

std::int64_t PlanFigures::bytes() const {
  return std::accumulate(step.begin(), step.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& op) { return sum + op.second.bytes; });
}

std::int64_t PlanFigures::peak() const {
  std::int64_t sum = 0;
  for (Tier t : memory_tiers) {
    const CategoryBytes& tier = at_peak[t];
    sum = std::accumulate(tier.begin(), tier.end(), sum);
  }
  return sum;
}

std::string_view to_string(SweepPoint::State state) {
  switch (state) {
    case SweepPoint::State::planned: return "planned";
    case SweepPoint::State::valid: return "VALID";
    case SweepPoint::State::invalid: return "INVALID";
    case SweepPoint::State::refused: break;
  }
  return "refused";
}

PlanFigures plan_figures(const Deck& deck, const Program& p, const Budgets& budgets) {
  PlanFigures f;
  f.stage = p.stage;
  f.schedule = to_string(p.schedule);
  f.parameters = p.model.parameters;
  f.layers = deck.model.layers;
  f.batch = p.batch;
  f.step = steady_volume(p);
  f.per_parameter = volume_per_parameter(p, f.step);
  f.allocated = allocated_bytes(p);
  const Footprint bytes = footprint(p);
  for (const Tier t : all_values<Tier>) {
    f.at_peak[t] = bytes.tiers[t].at_peak;
    f.budget[t] = budgets[t];
    if (budgets[t]) f.fits[t] = f.allocated[t] <= *budgets[t];
  }
  return f;
}

PredictedFigures predicted_figures(const PredictedPoint& p) {
  return {.step_s = p.step_s,
          .step_s_low = p.step_s_low,
          .step_s_high = p.step_s_high,
          .forward_s = p.priced.phase_s[Phase::forward],
          .backward_s = p.priced.phase_s[Phase::backward],
          .optimizer_s = p.priced.phase_s[Phase::step],
          .exposed_s = p.priced.exposed_s,
          .tokens_per_s = p.tokens_per_s,
          .limited_by = p.limited_by()};
}

RunFigures run_figures(const Deck& deck, const Result& r, double wall_s) {
  const TimeResult& times = r.slowest_times;
  RunFigures f;
  f.slowest_rank = r.slowest_rank;
  f.tokens_per_s = r.tokens_per_s;
  f.step_p50_s = r.step_p50_s;
  f.step_p99_s = r.step_p99_s;
  f.forward_s = times.forward;
  f.backward_s = times.backward;
  f.optimizer_s = times.optimizer;
  f.copies_s = times.copies;
  f.matmul_s = times.matmul;
  f.exposed_s = times.exposed;
  f.hidden_s = times.hidden;
  const bool trained = deck.run.compute == Compute::train && !r.rows.empty();
  f.loss = trained ? r.rows.back().loss : std::numeric_limits<double>::quiet_NaN();
  for (const Tier t : all_values<Tier>) f.measured[t] = r.tiers[t].measured_peak;
  f.resident_peak = r.rss_peak_most;
  for (const auto& [op, c] : r.collectives) {
    f.calls += c.measured.calls;
    f.predicted_calls += c.predicted.calls;
  }
  f.wall_s = wall_s;
  return f;
}

}  // namespace shardmark
