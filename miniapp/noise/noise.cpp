// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <miniapp/noise/noise.hpp>

namespace shardmark {
namespace {

constexpr double most_quanta = 4e6;  // of a rank

}  // namespace

void require_quanta(const NoiseArguments& a) {
  if (a.seconds > 3600)
    throw DeckError(fmt::format("--seconds: {}: must be at most 3600", a.seconds));
  const double most = 0.5 * a.seconds / fewest_quanta_per_loop * 1e6;
  if (a.quantum_us > most)
    throw DeckError(fmt::format(
        "--quantum-us: {}: must be at most {:.0f} with --seconds {}, so that each of the two loops "
        "has {} quanta",
        a.quantum_us, most, a.seconds, fewest_quanta_per_loop));
  const double least = std::ceil(0.5 * a.seconds / most_quanta * 1e6);
  if (a.quantum_us < least)
    throw DeckError(fmt::format(
        "--quantum-us: {}: must be at least {:.0f} with --seconds {}, because a rank stores each "
        "quantum",
        a.quantum_us, least, a.seconds));
}

NoiseAtScale noise_at_scale(const Noise& noise, int ranks) {
  NoiseAtScale s;
  s.ranks = ranks;
  s.delay_s = expected_maximum(noise.all.delays, ranks);
  if (noise.tail) s.tail_s = expected_maximum(noise.all.delays, *noise.tail, ranks);
  s.beyond_seen = beyond_seen(ranks, noise.all.figures.quanta);
  s.longer = s.tail_s.value_or(s.delay_s) / noise.all.figures.undisturbed_s();
  return s;
}

NoiseModel noise_model(const Noise& noise) {
  constexpr double least_s = 1e-9;  // a machine file has no times of zero
  const NoiseFigures& f = noise.all.figures;
  NoiseModel m;
  m.quantum_s = f.undisturbed_s();
  m.quanta = f.quanta;
  m.lost_part = f.lost_part();
  m.detours_per_s = f.detours_per_s();
  m.detour_s = f.mean_detour_s();
  for (std::int64_t one_in = 2; one_in <= f.quanta; one_in *= one_in == 2 ? 5 : 10) {
    const double p = 1 - 1 / static_cast<double>(one_in);
    m.delays.push_back(
        {static_cast<double>(one_in), std::max(least_s, noise.all.delays.quantile(p))});
  }
  for (const NoiseAtScale& s : noise.at_scale)
    m.slowest.push_back(
        {static_cast<double>(s.ranks), std::max(least_s, s.tail_s.value_or(s.delay_s))});
  for (const NoiseGroup& r : noise.ranks)
    for (const Period& p : r.periods) {
      const auto known = [&](const TimePoint& t) {
        return std::abs(t.size / p.period_s - 1) < 0.01;
      };
      if (std::none_of(m.periods.begin(), m.periods.end(), known))
        m.periods.push_back({p.period_s, std::max(least_s, p.detour_s)});
    }
  std::sort(m.periods.begin(), m.periods.end(),
            [](const TimePoint& x, const TimePoint& y) { return x.size < y.size; });
  return m;
}

}  // namespace shardmark
