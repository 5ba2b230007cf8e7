// SPDX-License-Identifier: Apache-2.0
// The watchdog. When a collective is not finished in time, its ranks tell each other over a
// communicator of the watchdog's own where they stand; who is behind, or does not answer, is named.
// There is no thread: ranks answer while they wait or poll, so a rank in a long computation answers
// when it polls next, and one that is stopped or lost does not.
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

/// A lane as its ranks see it: kept by the WatchingCommunicator, read by the Watch.
struct WatchedLane {
  static constexpr std::size_t name_chars = 56;
  struct Call {
    Op op = Op::barrier;
    char name[name_chars] = {};
  };
  std::uint64_t id = 0;                 // the same on all ranks of the group
  std::vector<int> ranks;               // of the world, by rank of the group
  std::uint64_t started = 0, done = 0;  // calls
  Call last;                            // the one that was started last
  Call oldest;                          // the oldest that is not done
  std::int64_t oldest_since_ns = 0;
};

/// What ranks tell each other; plain bytes on the wire.
struct WatchMessage {
  enum class Kind : std::int32_t { ask, answer };
  Kind kind = Kind::ask;
  std::int32_t known = 0;  // answer: whether the sender has this lane
  std::uint64_t lane = 0, started = 0, done = 0;
  WatchedLane::Call
      current;  // of the sender, on this lane: the oldest open call, else the last one
};

class Watch {
 public:
  /// Collective over `world`. Timeout in seconds, above 0. Throws CommError.
  Watch(MPI_Comm world, double timeout_s, Idle idle);
  /// Local after an error, else collective: nothing may be in flight.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Local; all ranks should set the same. Seconds, above 0.
  void set_timeout(double timeout_s);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Idle& idle() const { return idle_; }

  /// For a lane over all ranks; the same on all, where they make their lanes in the same order.
  std::uint64_t new_id() { return ++ids_; }
  void add(WatchedLane& lane) { lanes_[lane.id] = &lane; }
  void remove(const WatchedLane& lane) { lanes_.erase(lane.id); }

  /// Local. Answers who asks, now and then. True when `lane`'s oldest call is overdue.
  bool look(const WatchedLane& lane);
  /// Local. Asks the other ranks of `lane` and lets others know.
  void ask(const WatchedLane& lane);
  /// Local. True when all have answered, or the time of grace is over.
  bool answered(const WatchedLane& lane);
  /// The overdue call finished after all.
  void forgive() { lowest_asker_ = size_; }
  /// Whether a lower rank asks too: it will speak for all, and ends this one.
  bool lower_rank_asks() const { return lowest_asker_ < rank_; }
  std::int64_t grace_ns() const { return grace_ns_; }
  /// The whole message of the error.
  std::string verdict(const WatchedLane& lane) const;
  /// After an error nothing is freed that needs the others.
  void give_up() { gave_up_ = true; }

 private:
  struct Process {
    char host[64];
    std::int64_t pid;
  };
  struct Outgoing {
    WatchMessage message;
    MPI_Request request;
  };
  void poll();
  void receive();
  void handle(const WatchMessage& message, int source);
  void send(WatchMessage::Kind kind, std::uint64_t lane, int to);
  std::string process(int rank) const;

  OwnedComm comm_;
  int rank_ = 0, size_ = 1;
  std::int64_t timeout_ns_ = 0, grace_ns_ = 0;
  Idle idle_;
  std::vector<Process> processes_;
  std::map<std::uint64_t, WatchedLane*> lanes_;
  std::int64_t last_look_ns_ = 0, patient_since_ns_ = 0, asked_ns_ = 0;
  std::map<int, WatchMessage> answers_;  // by world rank, to the question asked last
  std::uint64_t asked_lane_ = 0, ids_ = 0;
  int lowest_asker_;
  WatchMessage incoming_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::list<Outgoing> outgoing_;
  bool gave_up_ = false;
};

}  // namespace shardmark
