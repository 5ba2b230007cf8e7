// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <core/plan/price/event_costs.hpp>
#include <core/plan/price/replay.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t replayed_iterations = 2;  // of what repeats

}  // namespace

double Arrivals::last(int queue, std::size_t number) const {
  double latest = 0;
  for (const auto& rank : times_) {
    const auto& times = rank[static_cast<std::size_t>(queue)];
    if (times.size() <= number) return -1;
    latest = std::max(latest, times[number]);
  }
  return latest;
}

void Replay::Sums::repeat(const Sums& before, double times) {
  const auto again = [times](double& now, double then) { now += times * (now - then); };
  const auto all = [&](auto& now, const auto& then) {
    for (std::size_t i = 0; i < now.size(); ++i) again(now[i], then[i]);
  };
  again(clock, before.clock);
  again(launched, before.launched);
  all(phase_s, before.phase_s);
  all(busy_s, before.busy_s);
  all(waiting_s, before.waiting_s);
  all(busy_by_resource, before.busy_by_resource);
  all(critical, before.critical);
  again(copies_s, before.copies_s);
  again(exposed_s, before.exposed_s);
  again(in_flight, before.in_flight);
  again(flops, before.flops);
}

Replay::Replay(const Program& program, const Machine& machine, const PriceOptions& options,
               std::size_t rank, Arrivals& arrivals)
    : program_(program),
      machine_(machine),
      options_(options),
      rank_(rank),
      arrivals_(arrivals),
      costs_(program, machine, options),
      turns_(turns_on_cores(machine, std::min(program.world, options.ranks_per_node), 1)),
      runs_(runs_of(program.steps[static_cast<std::size_t>(step_path(program, false).back())],
                    false)) {}

void Replay::start_collective(int index) {
  const Event& e = segment().events[static_cast<std::size_t>(index)];
  const Cost& cost = taken(index).cost;
  const int q = queue_of(e);
  Flight f;
  f.event = index;
  f.number = issued_[static_cast<std::size_t>(q)]++;
  f.left_s = cost.total();
  f.not_before_s = sums_.clock + options_.delay_s;
  f.record = record_;
  f.network_part = f.left_s > 0 ? cost[Resource::network] / f.left_s : 0;
  const CollectiveShape shape = costs_.shape_of(e);
  if (const NetworkLevel* level = level_of(machine_, shape)) {
    f.compute_share = machine_.software.overlaps ? level->compute_share : 1;
    f.speed_beside_compute = level->speed_beside_compute;
  }
  end_s_[static_cast<std::size_t>(index)] = on_its_way;
  // What is replayed is a rank of mean speed; the slowest one of its node arrives later.
  const double skew_s = rank_skew_s(machine_.jitter.rank_skew, shape.ranks_per_node, apart_s_);
  arrivals_.add(rank_, q, sums_.clock + owed_s_ + skew_s);
  queues_[static_cast<std::size_t>(q)].push_back(f);
}

// Copies between memories: on a CPU the rank itself moves the data, and an emulated link may carry
// them for longer. A device has a lane for them. Transfers of files have a thread.
void Replay::start_copy(int index) {
  const Event& e = segment().events[static_cast<std::size_t>(index)];
  const double duration = taken(index).cost.total();
  double& free_s = e.lane == Lane::disk ? disk_free_s_ : link_free_s_;
  const double begin = std::max(sums_.clock, free_s);
  double end = begin + duration;
  if (e.lane != Lane::disk && options_.host_link_bytes_per_s > 0)
    end = begin +
          static_cast<double>(e.elems * dtype_bytes(e.dtype)) / options_.host_link_bytes_per_s;
  if (e.lane != Lane::disk && machine_.device.is_host) end = std::max(end, sums_.clock);
  free_s = end;
  end_s_[static_cast<std::size_t>(index)] = end;
  sums_.busy_s[e.lane] += end - begin;
  if (options_.keep_events) {
    events_[record_].begin_s = begin;
    events_[record_].end_s = end;
  }
}

// An event goes through the stages: its edges, its computation, its start. It may stop in each of
// the first two until another rank has arrived somewhere.
bool Replay::run_event(int index) {
  const Event& e = segment().events[static_cast<std::size_t>(index)];
  phase_ = e.phase;
  for (; waits_ < e.after.count; ++waits_)
    if (!wait_for(program_.edges[static_cast<std::size_t>(e.after.first + waits_)])) return false;
  const bool moved_by_rank = e.op == Op::copy && e.lane == Lane::copy && machine_.device.is_host;
  if (stage_ == 0) {
    stage_ = 1;
    begin_s_ = sums_.clock;
    if (moved_by_rank) start_copy(index);
    Cost own;  // of the compute lane
    if (e.op == Op::compute || moved_by_rank) own = taken(index).cost;
    left_s_ = take_turns(own.total()) + machine_.device.event_s;
    own[Resource::host] += machine_.device.event_s;
    // The host launches kernels one after another, ahead of the device or with the device waiting.
    if (machine_.software.synchronizes && e.phase != launched_for_)
      sums_.launched = std::max(sums_.launched, sums_.clock);
    launched_for_ = e.phase;
    sums_.launched += taken(index).launching_s;
    const double late_s = sums_.launched - (sums_.clock + left_s_);
    if (late_s > 0) left_s_ += late_s, own[Resource::host] += late_s;
    for (std::size_t r = 0; r < own.size(); ++r) sums_.critical[r] += own[r];
    sums_.busy_s[Lane::compute] += left_s_;
    apart_s_ += left_s_;
    if (moved_by_rank) sums_.copies_s += left_s_;
    sums_.flops += taken(index).flops;
    for (std::size_t r = 0; r < own.size(); ++r)
      sums_.busy_by_resource[r] +=
          e.op == Op::compute || moved_by_rank ? own[r] : taken(index).cost[r];
  }
  computing_ = true;
  if (!pass(left_s_, never, -1)) return false;
  if (is_collective(e.op))
    start_collective(index);
  else if (e.op == Op::copy && !moved_by_rank)
    start_copy(index);
  else if (e.op == Op::compute && options_.keep_events)
    events_[record_].begin_s = begin_s_, events_[record_].end_s = sums_.clock;
  return true;
}

void Replay::open_record(int event) {
  record_ = events_.size();
  waited_before_ = sums_.exposed_s + sums_.copies_s;
  if (!options_.keep_events) return;
  PricedEvent priced;
  priced.segment = runs_[run_].segments[part_];
  priced.event = event;
  priced.issue_s = priced.begin_s = priced.end_s = sums_.clock;
  events_.push_back(priced);
}

void Replay::close_record() {
  if (!options_.keep_events) return;
  PricedEvent& priced = events_[record_];
  priced.waited_s = sums_.exposed_s + sums_.copies_s - waited_before_;
  if (priced.event < 0) priced.end_s = sums_.clock;
}

bool Replay::advance() {
  bool further = false;
  while (!complete()) {
    const std::vector<Event>& events = segment().events;
    const bool ends = event_ == static_cast<int>(events.size());
    if (!opened_) {
      if (event_ == 0) end_s_.assign(events.size(), 0);
      open_record(ends ? -1 : event_);
      opened_ = true;
      waits_ = stage_ = 0;
    }
    if (!ends && !run_event(event_)) return further;
    for (; ends && waits_ < static_cast<int>(events.size()); ++waits_)
      if (!wait_for(waits_)) return further;
    close_record();
    opened_ = false;
    further = true;
    ++event_;
    if (ends) next_segment();
  }
  return further;
}

void Replay::next_segment() {
  event_ = 0;
  const SegmentRun& run = runs_[run_];
  if (++part_ < run.segments.size()) return;
  part_ = 0;
  ++iteration_;
  if (iteration_ == replayed_iterations && run.times > iteration_) {
    sums_.repeat(before_, static_cast<double>(run.times - iteration_));
    iteration_ = run.times;
  }
  before_ = sums_;
  if (iteration_ < run.times) return;
  iteration_ = 0;
  ++run_;
  if (complete()) {
    computing_ = false;
    sums_.exposed_s += owed_s_;
    sums_.waiting_s[Lane::comm] += owed_s_;
    spend(std::exchange(owed_s_, 0), 0, false);
  }
  before_ = sums_;
}

PricedStep Replay::result() const {
  PricedStep p = sums_;
  p.step_s = sums_.clock + machine_.step_s;
  p.hidden_s = std::max(0.0, sums_.in_flight - sums_.exposed_s);
  p.events = events_;
  p.extrapolations = costs_.extrapolations();
  return p;
}

}  // namespace shardmark
