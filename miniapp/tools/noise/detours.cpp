// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>

#include <miniapp/tools/noise/detours.hpp>

namespace shardmark {

NoiseFigures& NoiseFigures::operator+=(const NoiseFigures& o) {
  quanta += o.quanta;
  work_s += o.work_s;
  base_s += o.base_s;
  lost_s += o.lost_s;
  detours += o.detours;
  detour_s += o.detour_s;
  return *this;
}

double undisturbed_quantum(const std::vector<Quantum>& quanta) {
  if (quanta.empty()) return 0;
  std::vector<double> times;
  times.reserve(quanta.size());
  for (const Quantum& q : quanta) times.push_back(q.seconds);
  const auto place = static_cast<std::ptrdiff_t>((times.size() - 1) / 100);
  std::nth_element(times.begin(), times.begin() + place, times.end());
  return times[place];
}

double detour_from(double undisturbed_s) {
  return std::max(0.01 * undisturbed_s, 1e-6);
}

NoiseFigures noise_figures(const std::vector<Quantum>& quanta, double undisturbed_s) {
  NoiseFigures f;
  f.quanta = std::ssize(quanta);
  f.base_s = undisturbed_s * static_cast<double>(quanta.size());
  for (const Quantum& q : quanta) {
    const double delay = std::max(0.0, q.seconds - undisturbed_s);
    f.work_s += q.seconds;
    f.lost_s += delay;
    if (delay <= detour_from(undisturbed_s)) continue;
    ++f.detours;
    f.detour_s += delay;
  }
  return f;
}

double rank_spread(const std::vector<std::vector<double>>& blocks) {
  if (blocks.size() < 2 || blocks[0].empty()) return 0;
  const auto ranks = static_cast<double>(blocks.size());
  double squares = 0;
  for (std::size_t b = 0; b < blocks[0].size(); ++b) {
    double mean = 0, variance = 0;
    for (const auto& rank : blocks) mean += rank[b] / ranks;
    for (const auto& rank : blocks) variance += (rank[b] - mean) * (rank[b] - mean) / (ranks - 1);
    squares += variance / (mean * mean);
  }
  return std::sqrt(squares / static_cast<double>(blocks[0].size()));
}

namespace {

constexpr std::size_t most_detours = 10'000, most_frequencies = 10'000, most_periods = 3,
                      most_searches = 6;
constexpr double fewest_cycles = 16;
constexpr double least_hits = 0.3;  // of the regular times
constexpr double least_detours = 8;
constexpr double by_chance_alone = 1e-5;  // false alarms per search

using Vector = std::complex<double>;

Vector unit(double turns) {
  return std::polar(1.0, 2 * std::numbers::pi * (turns - std::floor(turns)));
}

Vector sum_at(const std::vector<Detour>& detours, double frequency) {
  Vector sum = 0;
  for (const Detour& d : detours) sum += unit(d.at_s * frequency);
  return sum;
}

double signal(const std::vector<Detour>& detours, double frequency) {
  return std::norm(sum_at(detours, frequency)) / static_cast<double>(detours.size());
}

// Signals at low, low + step, … Each detour's vector is turned on from one frequency to the next.
std::vector<double> signals(const std::vector<Detour>& detours, double low, double step,
                            std::size_t count) {
  std::vector<Vector> sums(count, 0);
  for (const Detour& d : detours) {
    Vector now = unit(d.at_s * low);
    const Vector turn = unit(d.at_s * step);
    for (Vector& sum : sums) sum += now, now *= turn;
  }
  std::vector<double> found;
  found.reserve(count);
  for (const Vector& sum : sums)
    found.push_back(std::norm(sum) / static_cast<double>(detours.size()));
  return found;
}

// What chance alone gives around frequency i: at least 1, and more where detours come in clusters.
double level_around(const std::vector<double>& all, std::size_t i) {
  constexpr std::size_t reach = 100, own = 4;
  std::vector<double> around;
  for (std::size_t k = i > reach ? i - reach : 0; k < std::min(all.size(), i + reach + 1); ++k)
    if (k + own < i || k > i + own) around.push_back(all[k]);
  if (around.empty()) return 1;
  const auto middle = around.begin() + static_cast<std::ptrdiff_t>(around.size() / 2);
  std::nth_element(around.begin(), middle, around.end());
  return std::max(1.0, *middle / std::numbers::ln2);
}

// The frequency of the strongest signal, or the lowest one with half of its strength; 0: none.
double strongest(const std::vector<Detour>& detours, double span_s, double quantum_s) {
  const double low = fewest_cycles / span_s, step = 0.5 / span_s, high = 0.5 / quantum_s;
  if (high <= low) return 0;
  const auto wanted = static_cast<std::size_t>((high - low) / step);
  const std::vector<double> all =
      signals(detours, low, step, std::clamp<std::size_t>(wanted, 1, most_frequencies));
  std::vector<std::size_t> strong;
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Over all i, the parts 1 / ((i + 1) (i + 2)) of the permitted chance add up to 1.
    const auto n = static_cast<double>(i + 1);
    const double needed = std::log(n * (n + 1)) - std::log(by_chance_alone);
    if (all[i] <= needed || all[i] <= needed * level_around(all, i)) continue;
    strong.push_back(i);
    most = std::max(most, all[i]);
  }
  const auto first =
      std::ranges::find_if(strong, [&](std::size_t i) { return all[i] >= 0.5 * most; });
  if (first == strong.end()) return 0;
  std::size_t peak = *first;  // of the few neighbours that belong to it
  while (peak + 1 < all.size() && all[peak + 1] > all[peak]) ++peak;
  const double coarse = low + static_cast<double>(peak) * step;
  double best = coarse;
  for (int i = -50; i <= 50; ++i) {
    const double f = coarse + i * step / 50;
    if (signal(detours, f) > signal(detours, best)) best = f;
  }
  return best;
}

// Takes the detours of a period that are at least `least_s` long out of `left`. None if they hit
// too few of the regular times.
std::optional<Period> take(std::vector<Detour>& left, double least_s, double frequency,
                           double centre, double span_s, double quantum_s) {
  const double half = std::min(0.25, std::max(0.05, quantum_s * frequency));
  std::vector<Detour> others;
  double inside = 0, outside = 0, seconds = 0;
  for (const Detour& d : left) {
    const double turns = d.at_s * frequency - centre;
    const bool in_phase = std::abs(turns - std::round(turns)) <= half;
    if (d.seconds >= least_s) ++(in_phase ? inside : outside);
    if (d.seconds >= least_s && in_phase)
      seconds += d.seconds;
    else
      others.push_back(d);
  }
  const double regular = inside - outside * 2 * half / (1 - 2 * half);  // without chance hits
  Period p;
  p.period_s = 1 / frequency;
  p.hit_part = std::min(1.0, regular / (span_s * frequency));
  if (regular < least_detours || p.hit_part < least_hits) return {};
  p.detour_s = seconds / inside;
  p.lost_part = regular * p.detour_s / span_s;
  left = std::move(others);
  return p;
}

// A period of all detours, or else of their longer half, and so on: many short detours at random
// times hide a few long ones at regular times.
std::optional<Period> find_one(std::vector<Detour>& left, double span_s, double quantum_s) {
  std::vector<Detour> part = left;
  while (static_cast<double>(part.size()) >= least_detours) {
    const auto shortest = std::ranges::min_element(part, {}, &Detour::seconds);
    if (const double frequency = strongest(part, span_s, quantum_s); frequency > 0) {
      const double centre = std::arg(sum_at(part, frequency)) / (2 * std::numbers::pi);
      if (auto p = take(left, shortest->seconds, frequency, centre, span_s, quantum_s)) return p;
    }
    std::vector<double> lengths;
    for (const Detour& d : part) lengths.push_back(d.seconds);
    const auto middle = lengths.begin() + std::ssize(lengths) / 2;
    std::nth_element(lengths.begin(), middle, lengths.end());
    const double median = *middle, low = shortest->seconds;
    std::erase_if(part, [&](const Detour& d) { return d.seconds < median || d.seconds == low; });
  }
  return {};
}

// Where a period is only a few quanta long, its detours are found at several phases, one after the
// other.
void add(const Period& p, std::vector<Period>& found) {
  const auto same = std::ranges::find_if(
      found, [&](const Period& f) { return std::abs(f.period_s / p.period_s - 1) < 0.01; });
  if (same == found.end()) {
    found.push_back(p);
    return;
  }
  const double both = same->hit_part + p.hit_part;
  same->detour_s = (same->detour_s * same->hit_part + p.detour_s * p.hit_part) / both;
  same->hit_part = std::min(1.0, both);
  same->lost_part += p.lost_part;
}

}  // namespace

std::vector<Period> find_periods(const std::vector<Detour>& detours, double span_s,
                                 double quantum_s) {
  std::vector<Detour> left = detours;
  if (left.size() > most_detours) {
    span_s = left[most_detours].at_s;
    left.resize(most_detours);
  }
  std::vector<Period> found;
  for (std::size_t i = 0; i < most_searches && found.size() < most_periods; ++i) {
    const std::optional<Period> p = find_one(left, span_s, quantum_s);
    if (!p) break;
    add(*p, found);
  }
  return found;
}

}  // namespace shardmark
