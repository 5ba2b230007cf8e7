// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

constexpr double most_quanta = 4e6;  // of a rank
constexpr double shortest_s = 1e-9;  // a machine file has no times of zero
constexpr std::size_t most_described = 64;

// By how much one in 2, 10, 100, … quanta is delayed.
std::vector<TimePoint> delay_curve(const NoiseGroup& group) {
  std::vector<TimePoint> curve;
  for (std::int64_t one_in = 2; one_in <= group.figures.quanta; one_in *= one_in == 2 ? 5 : 10) {
    const auto size = static_cast<double>(one_in);
    curve.push_back({size, std::max(shortest_s, group.delays.quantile(1 - 1 / size))});
  }
  return curve;
}

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
  const NoiseFigures& f = noise.all.figures;
  NoiseModel m;
  m.quantum_s = f.undisturbed_s();
  m.quanta = f.quanta;
  m.lost_part = f.lost_part();
  m.detours_per_s = f.detours_per_s();
  m.detour_s = f.mean_detour_s();
  m.delays = delay_curve(noise.all);
  for (const NoiseAtScale& s : noise.at_scale)
    m.slowest.push_back(
        {static_cast<double>(s.ranks), std::max(shortest_s, s.tail_s.value_or(s.delay_s))});
  for (const NoiseGroup& r : noise.ranks)
    for (const Period& p : r.periods) {
      const auto known = [&](const TimePoint& t) {
        return std::abs(t.size / p.period_s - 1) < 0.01;
      };
      if (std::ranges::none_of(m.periods, known))
        m.periods.push_back({p.period_s, std::max(shortest_s, p.detour_s)});
    }
  std::ranges::sort(m.periods, {}, &TimePoint::size);
  for (const NoiseGroup& r : noise.ranks)
    m.ranks.push_back({r.rank, r.host, r.figures.lost_part(), delay_curve(r)});
  std::ranges::stable_sort(m.ranks,
                           [](const auto& x, const auto& y) { return x.lost_part > y.lost_part; });
  m.ranks.resize(std::min(m.ranks.size(), most_described));
  return m;
}

void describe_noise(const Noise& noise, Machine& machine) {
  machine.jitter.noise = noise_model(noise);
  if (noise.rank_spread > 0) machine.jitter.rank_relative_sd = std::min(1.0, noise.rank_spread);
}

}  // namespace shardmark
