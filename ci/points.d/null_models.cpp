// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ci/points.d/null_models.hpp>

namespace shardmark::points {
namespace {

bool same_model(const PublishedModel& a, const PublishedModel& b) {
  return a.family == b.family && a.layers == b.layers && a.hidden == b.hidden &&
         a.vocab == b.vocab && a.sequence == b.sequence;
}

// GPUs whose names begin alike. The peak is that of 16-bit products.
struct Kind {
  const char *gpu, *generation;
  double peak_flops;
};
constexpr Kind kinds[] = {{"V100", "volta", 125e12},   {"A100", "ampere", 312e12},
                          {"H100", "hopper", 989e12},  {"H200", "hopper", 989e12},
                          {"GH200", "hopper", 989e12}, {"B200", "blackwell", 2250e12},
                          {"MI2", "cdna 2", 191.5e12}, {"MI3", "cdna 3", 1307e12}};

const Kind* kind_of(const Point& p) {
  for (const Kind& kind : kinds)
    if (p.gpu.starts_with(kind.gpu)) return &kind;
  return nullptr;
}

// FLOPs of a step of one GPU, recomputation included where the source tells it.
double hardware_flops(const Point& p) {
  const auto h = static_cast<double>(p.model.hidden), l = static_cast<double>(p.model.layers);
  const double weights = 12 * l * h * h + static_cast<double>(p.model.vocab) * h;
  const double attention = 12 * l * h * static_cast<double>(p.model.sequence);
  const double recompute = p.recomputes_blocks() ? 4.0 / 3 : 1;
  return (6 * weights + attention) * recompute *
         static_cast<double>(p.global_batch * p.model.sequence) / p.gpus;
}

}  // namespace

std::string generation_of(const Point& p) {
  const Kind* kind = kind_of(p);
  return kind != nullptr ? kind->generation : p.gpu;
}

double part_of_peak(const Point& p) {
  constexpr double usual = 312e12;
  const Kind* kind = kind_of(p);
  return hardware_flops(p) / p.step_s / (kind != nullptr ? kind->peak_flops : usual);
}

double rate_of(const Point& p, double seconds) {
  return static_cast<double>(p.global_batch * p.model.sequence) / p.gpus / seconds;
}

std::optional<std::size_t> fewest_gpus(const std::vector<Point>& points, std::size_t i) {
  const Point& p = points[i];
  std::optional<std::size_t> fewest;
  for (std::size_t j = 0; j < points.size(); ++j) {
    const Point& q = points[j];
    const double micro = static_cast<double>(q.micro_batch) / static_cast<double>(p.micro_batch);
    if (q.poor() || q.source != p.source || q.gpu != p.gpu || q.precision != p.precision ||
        q.recomputation != p.recomputation || !same_model(p.model, q.model) || q.gpus >= p.gpus ||
        std::abs(micro - 1) > 0.25)
      continue;
    if (!fewest || q.gpus < points[*fewest].gpus) fewest = j;
  }
  return fewest;
}

std::optional<double> constant_rate_seconds(const std::vector<Point>& points, std::size_t i) {
  const auto j = fewest_gpus(points, i);
  if (!j) return {};
  return points[i].step_s * rate_of(points[i], points[i].step_s) /
         rate_of(points[*j], points[*j].step_s);
}

std::optional<double> one_efficiency_seconds(const std::vector<Point>& points, std::size_t i) {
  const Point& p = points[i];
  const Point* base = nullptr;
  for (const Point& q : points)
    if (!q.poor() && q.source == p.source && q.gpu == p.gpu && q.model.hidden == 4096 &&
        q.model.sequence == 2048 && (base == nullptr || q.gpus < base->gpus))
      base = &q;
  if (base == nullptr || base == &p) return {};
  return hardware_flops(p) / (hardware_flops(*base) / base->step_s);
}

}  // namespace shardmark::points
