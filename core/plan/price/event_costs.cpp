// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/event_costs.hpp>
#include <core/plan/price/scatter.hpp>

namespace shardmark {

EventCosts::EventCosts(const Program& program, const Machine& machine, const PriceOptions& options)
    : program_(program),
      ranks_per_node_(options.ranks_per_node),
      times_(machine, std::min(program.world, options.ranks_per_node), options.speeds),
      work_{machine.device.is_host, !machine.device.products.empty()},
      segments_(program.segments.size()) {}

CollectiveShape EventCosts::shape_of(const Event& event) const {
  const auto operands = program_.operands_of(event);
  return {.op = event.op,
          .dtype = event.dtype,
          .elems = event.elems,
          .ranks = program_.size_of(event.group),
          .ranks_per_node = static_cast<int>(program_.ranks_here(event.group, ranks_per_node_)),
          .in_place = operands.size() > 1 && operands[0].slot == operands[1].slot};
}

EventCosts::Taken EventCosts::look_up(const Event& e) {
  if (is_collective(e.op)) return {times_.collective(shape_of(e))};
  if (e.op == Op::copy) return {times_.copy(direction_of(e), e.elems * dtype_bytes(e.dtype))};
  if (e.op != Op::compute) return {};
  const Work work = work_of(program_, e, work_);
  // Frameworks update all parameters by few launches.
  const bool in_module = e.kernel == Kernel::forward || e.kernel == Kernel::backward ||
                         (e.kernel >= Kernel::attention && e.kernel <= Kernel::join_tokens);
  return {times_.compute(work, e.tier), work.flops(), in_module ? times_.launching(work) : 0};
}

const std::vector<EventCosts::Taken>& EventCosts::of_segment(std::int32_t segment) {
  const auto s = static_cast<std::size_t>(segment);
  const std::vector<Event>& events = program_.segments[s].events;
  if (segments_[s].size() != events.size())
    for (const Event& e : events) segments_[s].push_back(look_up(e));
  return segments_[s];
}

double slowest_draw(int n) {
  if (n <= 1) return 0;
  const double above = 1 - (n - 0.375) / (n + 0.25);  // the probability of a slower draw
  const double t = std::sqrt(-2 * std::log(above));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double rank_skew_s(const RankSkew& skew, int ranks, double work_s) {
  if (skew.ranks <= 1 || skew.points.empty() || ranks <= 1) return 0;
  const TimePoint& shortest = skew.points.front();
  const double measured_s = work_s < shortest.size ? shortest.seconds * work_s / shortest.size
                                                   : on_curve(skew.points, work_s).value;
  return measured_s * slowest_draw(ranks) / slowest_draw(skew.ranks);
}

double straggler_factor(const Machine& machine, int ranks, int ranks_per_node) {
  const double more = slowest_draw(ranks) - slowest_draw(std::min(ranks, ranks_per_node));
  return 1 + machine.jitter.rank_relative_sd * std::max(0.0, more);
}

}  // namespace shardmark
