// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include <fmt/core.h>

#include <miniapp/energy/counter.hpp>

namespace shardmark {

std::optional<double> CounterEnergy::phase_error(EnergyPhase phase, const PhaseSpans& spans) const {
  if (!phases.contains(phase) || spans[phase].count == 0) return std::nullopt;
  double most_watts = 0;
  for (const auto& [p, of_phase] : phases)
    if (spans[p].seconds > 0) most_watts = std::max(most_watts, of_phase / spans[p].seconds);
  const double per_span = phases.at(phase) / static_cast<double>(spans[phase].count);
  if (per_span <= 0) return std::nullopt;
  return (steps.update_s * most_watts + steps.joules) / per_span;
}

std::optional<double> CounterEnergy::phase_joules(EnergyPhase phase,
                                                  const PhaseSpans& spans) const {
  const auto error = phase_error(phase, spans);
  return error && *error <= most_phase_error ? std::optional(phases.at(phase)) : std::nullopt;
}

double CounterEnergy::error(double seconds) const {
  return seconds > 0 ? static_cast<double>(pieces) * steps.update_s / seconds : 0;
}

void EnergyCounter::begin() {
  last_ = read();
  energy_.joules = at_change_ = in_pauses_ = 0;
  energy_.phases = {};
  energy_.pieces = 1;
}

void EnergyCounter::sample() {
  const double now = read();
  double used = now - last_;
  if (used < 0) used += range();
  if (used < 0)
    throw std::runtime_error(fmt::format("{} fell from {} J to {} J", energy_.name, last_, now));
  (paused_ ? in_pauses_ : energy_.joules) += used;
  last_ = now;
}

void EnergyCounter::change_phase(std::optional<EnergyPhase> ended) {
  sample();
  const double all = energy_.joules + in_pauses_;
  if (ended) energy_.phases[*ended] += all - at_change_;
  at_change_ = all;
}

void EnergyCounter::pause() {
  sample();
  paused_ = true;
  ++energy_.pieces;
}

void EnergyCounter::resume() {
  sample();
  paused_ = false;
}

}  // namespace shardmark
