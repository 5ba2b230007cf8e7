// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <fmt/core.h>

#include <core/percentile.hpp>
#include <core/text.hpp>
#include <miniapp/energy/phase_meter.hpp>

namespace shardmark {
namespace {
constexpr double most_cost = 0.01;  // of the time of the phases
constexpr int trial_readings = 5;
}  // namespace

void PhaseMeter::step() {
  if (!timed_) readings_.spans = {};
}

// The median of some readings: while one of them lasts, the process may lose its core to another.
double PhaseMeter::cost_s() {
  std::vector<double> took_ns;
  std::int64_t start_ns = clock_();
  for (int i = 0; i < trial_readings; ++i) {
    meters_.change_phase(std::nullopt, false);
    const std::int64_t now_ns = clock_();
    took_ns.push_back(static_cast<double>(now_ns - start_ns));
    start_ns = now_ns;
  }
  return percentile(took_ns, 0.5) * 1e-9;
}

void PhaseMeter::begin() {
  timed_ = true;
  const PhaseSpans warmup = readings_.spans;
  readings_.spans = {};
  if (!readings_.refused.empty()) return;
  double ends = 1, seconds = 0;
  for (const PhaseSpan& span : warmup) {
    ends += static_cast<double>(span.count);
    seconds += span.seconds;
  }
  if (seconds <= 0) {
    readings_.refused = "no warm-up step has shown how long the phases are (run.warmup)";
    return;
  }
  follows_ = meters_.follow_phases(warmup);
  if (!follows_) return;
  const double cost = cost_s() * ends;
  if (cost <= most_cost * seconds) return;
  meters_.follow_no_phases();
  follows_ = false;
  readings_.refused =
      fmt::format("readings at the ends of phases would take {} per step, more than {:.0f} % of it",
                  duration(cost), most_cost * 100);
}

// Checkpoints are not in the time of the steps, so that all counters are read around them.
void PhaseMeter::read(std::optional<EnergyPhase> next) {
  if (now_ == EnergyPhase::checkpoint || next == EnergyPhase::checkpoint)
    return meters_.change_phase(now_, true);
  if (!follows_) return;
  const std::int64_t start_ns = clock_();
  meters_.change_phase(now_, false);
  readings_.seconds += static_cast<double>(clock_() - start_ns) * 1e-9;
  ++readings_.ends;
}

void PhaseMeter::enter(std::optional<EnergyPhase> next) {
  if (next == now_) return;
  const std::int64_t now_ns = clock_();
  if (now_) {
    PhaseSpan& span = readings_.spans[*now_];
    span.seconds += static_cast<double>(now_ns - since_ns_) * 1e-9;
    ++span.count;
  }
  if (timed_) read(next);
  now_ = next;
  since_ns_ = now_ns;
}

}  // namespace shardmark
