// SPDX-License-Identifier: Apache-2.0
// The watchdog. When a collective does not finish in time, the ranks of its group exchange how far
// they are, over a communicator that belongs to the watchdog. Ranks that are behind or do not
// answer are named in the error. A rank that is behind because it waits itself, in another group,
// is not to blame: the members of that group are asked next, and so on to the end of the chain.
// There is no thread: a rank answers while it waits or polls. A rank in a long computation answers
// at its next poll; a rank that is stopped or lost does not answer.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include <mpi.h>

#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// The progress of one lane on this rank. WatchingCommunicator writes it, the Watchdog reads it.
struct WatchedLane {
  static constexpr std::size_t name_chars = 56;
  /// The operation and the name of one collective, for messages.
  struct Call {
    Op op = Op::barrier;
    char name[name_chars] = {};
  };
  std::uint64_t id = 0;                 // the same on all ranks of the group
  std::vector<int> ranks;               // world rank of each rank of the group
  std::uint64_t started = 0, done = 0;  // how many calls were started and are done
  Call last;                            // the call that was started last
  Call oldest;                          // the oldest call that is not done
  std::int64_t oldest_since_ns = 0;
};

/// The messages of the watchdog, sent as plain bytes.
struct WatchdogMessage {
  enum class Kind : std::int32_t { ask, answer };
  Kind kind = Kind::ask;
  std::int32_t known = 0;  // in an answer: whether the sender has this lane
  std::uint64_t lane = 0, started = 0, done = 0;
  WatchedLane::Call current;  // the sender's oldest open call on this lane, or else its last call
  /// The other lane in which the sender has waited longest for a call.
  struct Wait {
    std::uint64_t lane = 0, done = 0;  // lane 0: it waits in none
    WatchedLane::Call call;
    std::int32_t first = 0, stride = 1, count = 0;  // the lane's world ranks; count 0: irregular
  } wait;
};

/// Detects collectives that do not finish. One per process; it serves all watched lanes.
class Watchdog {
 public:
  /// Collective over `world`. `timeout_s` is in seconds and must be above 0. Throws CommError.
  Watchdog(MPI_Comm world, double timeout_s, Idle idle);
  /// Collective, and nothing may be in flight; after `abandon` not collective.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Sets the timeout in seconds, above 0. Not collective, but all ranks should set the same value.
  void set_timeout(double timeout_s);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Idle& idle() const { return idle_; }

  /// A number for a lane over all ranks. Ranks that create their lanes in the same order get the
  /// same numbers.
  std::uint64_t new_id() { return ++ids_; }
  void add(WatchedLane& lane) { lanes_[lane.id] = &lane; }
  void remove(const WatchedLane& lane) { lanes_.erase(lane.id); }

  /// Answers questions of other ranks, at most once per millisecond. True when the oldest call of
  /// `lane` is overdue. Not collective.
  bool poll_overdue(const WatchedLane& lane);
  /// Asks the other ranks of `lane` how far they are. Not collective.
  void ask_peers(const WatchedLane& lane);
  /// True when all ranks have answered or the grace period is over, and no rank that is behind
  /// waits in a group that has not been asked yet; such a group is asked here. Not collective.
  bool answers_complete();
  /// Forgets the questions of other ranks, because the overdue call finished after all.
  void forget_askers() { lowest_asker_ = size_; }
  /// Whether a lower rank asks as well. That rank reports the error and ends this process.
  bool lower_rank_reports() const { return lowest_asker_ < rank_; }
  std::int64_t grace_ns() const { return grace_ns_; }
  /// The complete message of the error.
  std::string timeout_message(const WatchedLane& lane) const;
  /// Called after an error: the destructor then frees nothing that needs other ranks.
  void abandon() { abandoned_ = true; }

 private:
  struct Process {
    char host[64];
    std::int64_t pid;
  };
  struct Outgoing {
    WatchdogMessage message;
    MPI_Request request;
  };
  // A group that was asked: the lane whose own call does not finish, then the lanes in which ranks
  // wait that are behind.
  struct Asked {
    std::uint64_t lane = 0, stuck = 0;  // the call that does not finish
    std::vector<int> ranks;
    WatchedLane::Call call;
    int waiting = -1;                        // the rank that waits in it; -1: this one
    std::map<int, WatchdogMessage> answers;  // by world rank
  };
  void ask(Asked asked);
  Asked* find_asked(std::uint64_t lane);
  bool ask_further();
  WatchdogMessage::Wait own_wait(std::uint64_t other_than) const;
  struct Blame;
  Blame blame(std::size_t index, const std::vector<bool>& explained) const;
  void poll();
  void handle(const WatchdogMessage& message, int source);
  void send(WatchdogMessage::Kind kind, std::uint64_t lane, int to);
  std::string process(int rank) const;

  OwnedComm comm_;
  int rank_, size_;
  std::int64_t timeout_ns_ = 0, grace_ns_ = 0;
  Idle idle_;
  std::vector<Process> processes_;
  std::map<std::uint64_t, WatchedLane*> lanes_;
  std::int64_t last_poll_ns_ = 0, waiting_since_ns_ = 0, asked_ns_ = 0;
  std::vector<Asked> chain_;
  std::uint64_t ids_ = 0;
  int lowest_asker_;
  std::list<Outgoing> outgoing_;
  bool abandoned_ = false;
};

}  // namespace shardmark
