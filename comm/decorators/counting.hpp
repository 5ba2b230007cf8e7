// SPDX-License-Identifier: Apache-2.0
// Counts and times what passes: the measured side of the report's communication table. Groups made
// by split count into the same counters, each under a number of its own.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <comm/decorators/forwarding.hpp>
#include <core/plan/interpret/volume.hpp>

namespace shardmark {

/// One collective, from its start to when it was seen to be done. Exposed time is `blocked_ns`,
/// hidden time the rest of the span.
struct CollectiveRecord {
  Op op = Op::barrier;
  Dtype dtype = Dtype::fp32;
  std::int64_t elems = 0;  // nccl-tests' S
  int name = -1;           // of CommCounters::names
  int group = 0;           // whose: as of CommCounters::volume
  std::int64_t issue_ns = 0, done_ns = 0;
  std::int64_t blocked_ns = 0;  // spent in start, test, wait and progress while it was the oldest
};

class CommCounters {
 public:
  /// Calls, elements and bytes by collective since the last reset. Zero-element calls count.
  /// `group`: 0 is the communicator that was given, the next ones its splits as they were made.
  Volume volume(int group = all_groups) const;
  /// All time spent inside the communicators that count here.
  std::int64_t blocked_ns() const { return blocked_ns_; }
  void reset();

  /// Records are kept only of collectives started while recording is on.
  void recording(bool on) { recording_ = on; }
  bool recording() const { return recording_; }
  /// In order of completion.
  const std::vector<CollectiveRecord>& records() const { return records_; }
  const std::vector<std::string>& names() const { return names_; }
  /// Hands over what was recorded so far; what is recorded later starts anew.
  std::vector<CollectiveRecord> take_records() { return std::exchange(records_, {}); }

 private:
  friend class CountingCommunicator;
  int name_index(std::string_view name);

  std::vector<Volume> volumes_;  // by group
  std::int64_t blocked_ns_ = 0;
  bool recording_ = false;
  std::vector<CollectiveRecord> records_;
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> index_;
};

class CountingCommunicator : public ForwardingCommunicator {
 public:
  /// `counters` must outlive it and its splits.
  CountingCommunicator(std::unique_ptr<Communicator> inner, CommCounters& counters);
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  bool holds_compute(Ticket ticket) override { return inner().holds_compute(ticket); }
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  class Blocked;
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
