// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

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
  return times[static_cast<std::size_t>(place)];
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

}  // namespace shardmark
