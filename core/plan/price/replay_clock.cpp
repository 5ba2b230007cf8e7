// SPDX-License-Identifier: Apache-2.0
// How time passes in a replay: on the compute lane, for collectives in flight, and while waiting.
#include <algorithm>
#include <utility>

#include <core/plan/price/replay.hpp>

namespace shardmark {
namespace {

constexpr double rounding_s = 1e-15;

}  // namespace

// Time passes on the compute lane; `own` of it is computation.
void Replay::spend(double dt, double own, bool flying) {
  if (flying || sums_.clock < flying_until_s_) sums_.in_flight += dt;
  sums_.clock += dt;
  sums_.phase_s[phase_] += dt;
  const double taken = computing_ ? dt - own : 0;  // by collectives that this rank makes progress
  sums_.exposed_s += taken;
  sums_.waiting_s[Lane::comm] += taken;
  sums_.critical[Resource::network] += taken;
}

// The cost of work includes the turns of the other ranks on the same core. Some of them have theirs
// while this rank waits for a collective, which begins when the last of them has arrived. Only a
// rank that computes for longer than the scheduler lets it is interrupted. Returns how long it
// takes from the beginning of the work to its end; the others are owed the rest.
double Replay::take_turns(double own_s) {
  constexpr double uninterrupted_s = 4e-3;  // a tick of Linux' scheduler, 250 times per second
  if (turns_ <= 1) return own_s;
  const double alone_s = own_s / turns_;
  owed_s_ += own_s - alone_s;
  if (owed_s_ <= (turns_ - 1) * uninterrupted_s) return alone_s;
  return alone_s + std::exchange(owed_s_, 0);
}

// A collective's data have arrived. A delayed one ends later, while the next one may go on.
void Replay::land(int queue) {
  auto& flights = queues_[static_cast<std::size_t>(queue)];
  const Flight& head = flights.front();
  const double end = std::max(sums_.clock, head.not_before_s);
  end_s_[static_cast<std::size_t>(head.event)] = end;
  free_s_[static_cast<std::size_t>(queue)] = sums_.clock;
  flying_until_s_ = std::max(flying_until_s_, end);
  sums_.busy_s[Lane::comm] += end - head.begin_s;
  if (options_.keep_events) {
    events_[head.record].begin_s = head.begin_s;
    events_[head.record].end_s = end;
  }
  flights.pop_front();
}

// Lets time pass until `left_s` seconds of computation are done (if computing_), or else until the
// time `until_s` or the end of the collective `awaited`. Returns false if that depends on another
// rank that has not arrived yet.
bool Replay::pass(double& left_s, double until_s, std::int32_t awaited) {
  while (true) {
    if (computing_) {
      if (left_s <= 0) return true;
    } else if (awaited >= 0) {
      if (end_s_[static_cast<std::size_t>(awaited)] != on_its_way) return true;
    } else if (sums_.clock >= until_s) {
      return true;
    }
    std::array<double, queue_count> speed{};
    double rate = 1, dt = computing_ || awaited >= 0 ? never : until_s - sums_.clock;
    bool flying = false;
    for (int q = 0; q < queue_count; ++q) {
      auto& queue = queues_[static_cast<std::size_t>(q)];
      if (queue.empty()) continue;
      flying = true;
      Flight& head = queue.front();
      const double last = arrivals_.last(q, head.number);
      if (last < 0) return false;
      const double begin = std::max(last, free_s_[static_cast<std::size_t>(q)]);
      if (begin > sums_.clock) {
        dt = std::min(dt, begin - sums_.clock);
        continue;
      }
      if (head.begin_s < 0) head.begin_s = begin;
      double& v = speed[static_cast<std::size_t>(q)];
      v = computing_ ? head.speed_beside_compute : 1;
      if (computing_) rate -= head.compute_share * v;
      if (v > 0) dt = std::min(dt, head.left_s / v);
    }
    constexpr double slowest = 0.02;
    rate = std::max(rate, slowest);
    if (computing_) dt = std::min(dt, left_s / rate);
    if (!computing_ && awaited >= 0) {
      const int q = queue_of(segment().events[static_cast<std::size_t>(awaited)]);
      sums_.exposed_s += dt;
      sums_.waiting_s[Lane::comm] += dt;
      owed_s_ = std::max(0.0, owed_s_ - dt);
      // While a collective waits for another rank, no resource of this one is the limit.
      if (speed[static_cast<std::size_t>(q)] > 0) {
        const double part = queues_[static_cast<std::size_t>(q)].front().network_part;
        sums_.critical[Resource::network] += dt * part;
        sums_.critical[Resource::latency] += dt * (1 - part);
      }
    }
    const double own = computing_ ? dt * rate : 0;
    spend(dt, own, flying);
    left_s -= own;
    if (left_s < rounding_s) left_s = 0;
    for (int q = 0; q < queue_count; ++q) {
      const double v = speed[static_cast<std::size_t>(q)];
      if (v <= 0) continue;
      Flight& head = queues_[static_cast<std::size_t>(q)].front();
      head.left_s -= dt * v;
      if (head.left_s <= rounding_s) land(q);
    }
  }
}

// Waits for a time that is known already.
bool Replay::wait_until(double until_s, Lane lane, Resource resource) {
  computing_ = false;
  double none = 0;
  const double before = sums_.clock;
  const bool done = pass(none, until_s, -1);
  const double waited = sums_.clock - before;
  sums_.waiting_s[lane] += waited;
  sums_.critical[resource] += waited;
  (lane == Lane::comm ? sums_.exposed_s : sums_.copies_s) += waited;
  return done;
}

// Like Executor::wait_for.
bool Replay::wait_for(std::int32_t index) {
  const Event& e = segment().events[static_cast<std::size_t>(index)];
  if (e.lane == Lane::compute) return true;
  double& end_s = end_s_[static_cast<std::size_t>(index)];
  if (is_collective(e.op)) {
    computing_ = false;
    double none = 0;
    if (end_s == on_its_way) {
      if (!pass(none, 0, index)) return false;
      apart_s_ = 0;
    }
    return wait_until(end_s, Lane::comm, Resource::latency);
  }
  return wait_until(end_s, e.lane, e.lane == Lane::disk ? Resource::disk : Resource::host_link);
}

}  // namespace shardmark
