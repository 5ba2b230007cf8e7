// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/measure/result.hpp>

namespace shardmark {

std::vector<PredictedTime> predicted_times(const Result& r) {
  if (!r.prediction) return {};
  const PredictedPoint& p = r.prediction->point;
  const PhaseMedians& t = r.median_times;
  return {{"step", p.step_s, t.step},
          {"forward", p.priced.phase_s[Phase::forward], t.forward},
          {"backward", p.priced.phase_s[Phase::backward], t.backward},
          {"optimizer", p.priced.phase_s[Phase::step], t.optimizer},
          {"copies", p.priced.copies_s, t.copies},
          {"exposed", p.priced.exposed_s, t.exposed}};
}

std::string cores_of_prediction(const Result& r) {
  if (!r.prediction || r.core_to_core_s <= 0) return {};
  const double ns = r.core_to_core_s * 1e9, assumed_ns = r.prediction->core_to_core_s * 1e9;
  if (assumed_ns <= 0)
    return fmt::format("the cores of neighbouring ranks were {:.0f} ns apart", ns);
  return fmt::format(
      "the cores of neighbouring ranks were {:.0f} ns apart, and the prediction is that of {:.0f} "
      "ns",
      ns, assumed_ns);
}

MeasuredUse measured_use(const Result& r) {
  if (!r.prediction || r.step_p50_s <= 0) return {};
  const PredictedPoint& p = r.prediction->point;
  const auto corrected = [&](const std::optional<double>& part) {
    return part ? std::optional(*part * p.step_s / r.step_p50_s) : std::nullopt;
  };
  return {corrected(p.mfu), corrected(p.hfu)};
}

}  // namespace shardmark
