// SPDX-License-Identifier: Apache-2.0
// Counts and times the collectives that pass through: the measured side of the report's
// communication table. Groups made by split use the same counters under group numbers of their own.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <comm/decorators/forwarding.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

/// One collective, from its start until the rank saw that it was done. `blocked_ns` is the exposed
/// time; the rest of the span is hidden.
struct CollectiveRecord {
  Op op = Op::barrier;
  Dtype dtype = Dtype::fp32;
  std::int64_t elems = 0;  // S as defined by nccl-tests
  int name = -1;           // index into CommCounters::names
  int group = 0;           // the group number, as in CommCounters::volume
  std::int64_t issue_ns = 0, done_ns = 0;
  std::int64_t blocked_ns = 0;  // as CommCounters::blocked_ns, while this collective was the oldest
};

/// The counters that a CountingCommunicator and its splits share. Not collective.
class CommCounters {
 public:
  /// Calls, elements and bytes by operation since the last reset; calls of zero elements count.
  /// Group 0 is the communicator that was wrapped; its splits follow in the order in which they
  /// were made.
  Volume volume(int group = all_groups) const;
  /// What the back-end of a group has moved since the last reset.
  MovedVolume moved(int group) const;
  /// The time spent inside the counted communicators since the last reset; see not_exposed_while.
  std::int64_t blocked_ns() const { return blocked_ns_; }
  /// The time since the last reset in which at least one collective was open, from its start until
  /// this rank saw that it was done.
  std::int64_t in_flight_ns() const { return in_flight_ns_; }
  void reset();
  /// While `*flag` holds, the compute lane counts as busy, and time in communicators is not
  /// exposed. For those who emulate a kernel by waiting. `flag` must outlive the communicators.
  void not_exposed_while(const bool* flag) { emulating_ = flag; }

  /// Turns recording on or off. Only collectives started while recording is on are recorded.
  void recording(bool on) { recording_ = on; }
  bool recording() const { return recording_; }
  /// The records so far, in order of completion; the owner of the counters may remove some.
  const std::vector<CollectiveRecord>& records() const { return records_; }
  std::vector<CollectiveRecord>& records() { return records_; }
  const std::vector<std::string>& names() const { return names_; }
  /// Returns the records so far and removes them from the counters.
  std::vector<CollectiveRecord> take_records() { return std::exchange(records_, {}); }

 private:
  friend class CountingCommunicator;
  int name_index(std::string_view name);

  // A counted communicator, and what its back-end had moved before the last reset.
  struct Source {
    const Communicator* inner;  // null: the communicator is gone, and with it its count
    MovedVolume before;
  };
  std::vector<Volume> volumes_;  // by group number
  std::vector<Source> sources_;  // the same
  std::int64_t blocked_ns_ = 0;
  std::int64_t in_flight_ns_ = 0, in_flight_since_ns_ = 0;
  std::size_t open_ = 0;  // collectives of all counted communicators
  bool recording_ = false;
  const bool* emulating_ = nullptr;
  std::vector<CollectiveRecord> records_;
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> index_;
};

/// The decorator that fills CommCounters.
class CountingCommunicator : public ForwardingCommunicator {
 public:
  /// `counters` must outlive this communicator and its splits.
  CountingCommunicator(std::unique_ptr<Communicator> inner, CommCounters& counters);
  ~CountingCommunicator() override;
  CountingCommunicator(const CountingCommunicator&) = delete;
  CountingCommunicator& operator=(const CountingCommunicator&) = delete;
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  bool holds_compute(Ticket ticket) override { return inner().holds_compute(ticket); }
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  class BlockedTimer;
  struct Open {
    Ticket ticket;
    bool recorded;
    CollectiveRecord record;
  };
  void close_oldest();
  void close_done();

  CommCounters& counters_;
  int group_;
  std::deque<Open> open_;
};

}  // namespace shardmark
