// SPDX-License-Identifier: Apache-2.0
// Replays the events of one rank on its lanes. The compute lane works through the plan in issue
// order, as the executor does; collectives, copies and transfers of files go on beside it until an
// order edge makes it wait for them. Collectives are fluids: beside computation each runs at the
// speed that the machine gives it, and takes its share from the compute lane.
#pragma once

#include <deque>
#include <limits>
#include <vector>

#include <core/plan/price/event_costs.hpp>

namespace shardmark {

/// When the ranks of a price reached their collectives: by rank, queue and number.
class Arrivals {
 public:
  explicit Arrivals(std::size_t ranks) : times_(ranks) {}
  void add(std::size_t rank, int queue, double seconds) {
    times_[rank][static_cast<std::size_t>(queue)].push_back(seconds);
  }
  /// The latest arrival at collective `number` of `queue`; negative if a rank has not come yet.
  double last(int queue, std::size_t number) const;

 private:
  std::vector<std::array<std::vector<double>, queue_count>> times_;
};

class Replay {
 public:
  /// All must outlive it. `rank` is its index in `arrivals`.
  Replay(const Program& program, const Machine& machine, const PriceOptions& options,
         std::size_t rank, Arrivals& arrivals);

  /// Goes on until the step is complete, or until another rank must arrive first. Returns whether
  /// it got any further.
  bool advance();
  bool complete() const { return run_ == runs_.size(); }
  PricedStep result() const;

 private:
  // Times of the end of an event: it is not known, or the event is a collective on its way.
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr double on_its_way = -1;
  // Accumulated over the step, of which `result` completes it; what repeats is added several times.
  struct Sums : PricedStep {
    double clock = 0;      // of the compute lane
    double launched = 0;   // when the host of a device has launched what the lane computes
    double in_flight = 0;  // of collectives
    void repeat(const Sums& before, double times);
  };
  // A collective that this rank has started.
  struct Flight {
    std::int32_t event = 0;                              // of the segment
    std::size_t number = 0;                              // of the queue
    double left_s = 0;                                   // of its duration, at full speed
    double not_before_s = 0;                             // a delayed collective ends no earlier
    double begin_s = -1;                                 // negative: it has not begun
    std::size_t record = 0;                              // in PricedStep::events
    double network_part = 0;                             // of its duration, the rest is latency
    double compute_share = 0, speed_beside_compute = 1;  // as in NetworkLevel
  };

  const Segment& segment() const {
    return program_.segments[static_cast<std::size_t>(runs_[run_].segments[part_])];
  }
  const EventCosts::Taken& taken(int event) {
    return costs_.of_segment(runs_[run_].segments[part_])[static_cast<std::size_t>(event)];
  }
  bool run_event(int index);
  bool wait_for(std::int32_t index);
  bool wait_until(double until_s, Lane lane, Resource resource);
  bool pass(double& left_s, double until_s, std::int32_t awaited);
  void spend(double dt, double own, bool flying);
  void land(int queue);
  void start_collective(int index);
  void start_copy(int index);
  double take_turns(double own_s);
  void open_record(int event);
  void close_record();
  void next_segment();

  const Program& program_;
  const Machine& machine_;
  const PriceOptions& options_;
  std::size_t rank_;
  Arrivals& arrivals_;
  EventCosts costs_;
  double turns_;  // ranks per core, if ranks compute on the cores of the node and outnumber them
  std::vector<SegmentRun> runs_;

  // The position: which run, which iteration of it, which of its segments, which event, and how far
  // that event has got.
  std::size_t run_ = 0, part_ = 0;
  std::int64_t iteration_ = 0;
  int event_ = 0;           // one beyond the last: the wait at the segment's end
  bool opened_ = false;     // the event has begun
  int stage_ = 0;           // 1: its edges are waited for
  std::int32_t waits_ = 0;  // how many of its edges, or of the segment's events, are done
  bool computing_ = false;
  double left_s_ = 0, begin_s_ = 0;  // of its computation
  Phase phase_ = Phase::forward;
  Phase launched_for_ = Phase::forward;  // of the event whose kernels were launched last

  Sums sums_, before_;         // before_: at the start of the iteration
  std::vector<double> end_s_;  // by event of the segment
  std::array<std::deque<Flight>, queue_count> queues_;
  std::array<double, queue_count> free_s_{};  // when a queue's last flight ended
  std::array<std::size_t, queue_count> issued_{};
  double flying_until_s_ = 0, link_free_s_ = 0, disk_free_s_ = 0;
  double owed_s_ = 0;   // of its core, to the ranks with which this one takes turns
  double apart_s_ = 0;  // worked since it last waited for the others
  std::vector<PricedEvent> events_;
  std::size_t record_ = 0;  // of the event
  double waited_before_ = 0;
};

}  // namespace shardmark
