// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <core/error.hpp>
#include <core/plan/price/replay.hpp>
#include <core/plan/price/stragglers.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t replayed_iterations = 2;  // of what repeats

int ranks_of_node(const Program& program, int group, int ranks_per_node) {
  const std::vector<int>& ranks = program.groups[group].ranks;
  if (ranks.empty()) return std::min(program.world, ranks_per_node);
  const int node = program.rank / ranks_per_node;
  return std::max<int>(1, static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [&](int r) {
                         return r / ranks_per_node == node;
                       })));
}

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
  all(phase, before.phase);
  all(busy, before.busy);
  all(waiting, before.waiting);
  all(by_resource, before.by_resource);
  all(critical, before.critical);
  again(copies, before.copies);
  again(exposed, before.exposed);
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
      times_(machine, std::min(program.world, options.ranks_per_node), options.speeds),
      work_{machine.device.is_host},
      turns_(turns_on_cores(machine, std::min(program.world, options.ranks_per_node), 1)),
      runs_(runs_of(program.steps[static_cast<std::size_t>(step_path(program, false).back())],
                    false)),
      costs_(program.segments.size()),
      flops_(program.segments.size()) {}

CollectiveShape Replay::shape_of(const Event& event) const {
  const auto slot_of = [&](int operand) {
    return program_.operands[static_cast<std::size_t>(event.operands.first + operand)].slot;
  };
  return {.op = event.op,
          .dtype = event.dtype,
          .elems = event.elems,
          .ranks = program_.size_of(event.group),
          .ranks_per_node = ranks_of_node(program_, event.group, options_.ranks_per_node),
          .in_place = event.operands.count > 1 && slot_of(0) == slot_of(1)};
}

const std::vector<Cost>& Replay::costs() {
  const auto s = static_cast<std::size_t>(runs_[run_].segments[part_]);
  const std::vector<Event>& events = program_.segments[s].events;
  if (costs_[s].size() == events.size()) return costs_[s];
  for (const Event& e : events) {
    Cost cost;
    double flops = 0;
    if (is_collective(e.op)) {
      cost = times_.collective(shape_of(e));
    } else if (e.op == Op::copy) {
      cost = times_.copy(direction_of(e), e.elems * dtype_bytes(e.dtype));
    } else if (e.op == Op::compute) {
      const Work work = work_of(program_, e, work_);
      cost = times_.compute(work);
      flops = work.flops();
    }
    costs_[s].push_back(cost);
    flops_[s].push_back(flops);
  }
  return costs_[s];
}

void Replay::start_collective(int index) {
  const Event& e = segment().events[static_cast<std::size_t>(index)];
  const Cost& cost = costs()[static_cast<std::size_t>(index)];
  const int q = queue_of(e);
  Flight f;
  f.event = index;
  f.number = issued_[static_cast<std::size_t>(q)]++;
  f.left_s = cost.total();
  f.not_before_s = sums_.clock + options_.delay_s;
  f.record = record_;
  f.network_part = f.left_s > 0 ? cost[Resource::network] / f.left_s : 0;
  const CollectiveShape shape = shape_of(e);
  if (const NetworkLevel* level = level_of(machine_, shape)) {
    f.compute_share = level->compute_share;
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
  const double duration = costs()[static_cast<std::size_t>(index)].total();
  double& free_s = e.lane == Lane::disk ? disk_free_s_ : link_free_s_;
  const double begin = std::max(sums_.clock, free_s);
  double end = begin + duration;
  if (e.lane != Lane::disk && options_.host_link_bytes_per_s > 0)
    end = begin +
          static_cast<double>(e.elems * dtype_bytes(e.dtype)) / options_.host_link_bytes_per_s;
  if (e.lane != Lane::disk && machine_.device.is_host) end = std::max(end, sums_.clock);
  free_s = end;
  end_s_[static_cast<std::size_t>(index)] = end;
  sums_.busy[e.lane] += end - begin;
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
  const auto i = static_cast<std::size_t>(index);
  const bool moved_by_rank = e.op == Op::copy && e.lane == Lane::copy && machine_.device.is_host;
  if (stage_ == 0) {
    stage_ = 1;
    begin_s_ = sums_.clock;
    if (moved_by_rank) start_copy(index);
    Cost own;  // of the compute lane
    if (e.op == Op::compute || moved_by_rank) own = costs()[i];
    left_s_ = take_turns(own.total()) + machine_.device.event_s;
    own[Resource::host] += machine_.device.event_s;
    for (std::size_t r = 0; r < own.size(); ++r) sums_.critical[r] += own[r];
    sums_.busy[Lane::compute] += left_s_;
    apart_s_ += left_s_;
    if (moved_by_rank) sums_.copies += left_s_;
    const auto s = static_cast<std::size_t>(runs_[run_].segments[part_]);
    sums_.flops += flops_[s].empty() ? 0 : flops_[s][i];
    for (std::size_t r = 0; r < own.size(); ++r)
      sums_.by_resource[r] += e.op == Op::compute || moved_by_rank ? own[r] : costs()[i][r];
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
  waited_before_ = sums_.exposed + sums_.copies;
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
  priced.waited_s = sums_.exposed + sums_.copies - waited_before_;
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
    sums_.exposed += owed_s_;
    sums_.waiting[Lane::comm] += owed_s_;
    spend(std::exchange(owed_s_, 0), 0, false);
  }
  before_ = sums_;
}

PricedStep Replay::result() const {
  PricedStep p;
  p.step_s = sums_.clock + machine_.step_s;
  p.phase_s = sums_.phase;
  p.copies_s = sums_.copies;
  p.exposed_s = sums_.exposed;
  p.hidden_s = std::max(0.0, sums_.in_flight - sums_.exposed);
  p.busy_s = sums_.busy;
  p.waiting_s = sums_.waiting;
  p.busy_by_resource = sums_.by_resource;
  p.critical = sums_.critical;
  p.flops = sums_.flops;
  p.events = events_;
  p.extrapolations = times_.extrapolations();
  return p;
}

PricedStep price(const Program& program, const Machine& machine, const PriceOptions& options) {
  return price(std::vector{&program}, machine, options).front();
}

std::vector<PricedStep> price(const std::vector<const Program*>& ranks, const Machine& machine,
                              const PriceOptions& options) {
  Arrivals arrivals(ranks.size());
  std::vector<Replay> replays;
  replays.reserve(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    replays.emplace_back(*ranks[r], machine, options, r, arrivals);
  for (bool complete = false; !complete;) {
    bool further = false;
    complete = true;
    for (Replay& replay : replays) {
      further = replay.advance() || further;
      complete = complete && replay.complete();
    }
    if (!complete && !further)
      throw PlanError("price: the collectives of the ranks do not agree: one rank waits for ever");
  }
  std::vector<PricedStep> steps;
  for (const Replay& replay : replays) steps.push_back(replay.result());
  return steps;
}

}  // namespace shardmark
