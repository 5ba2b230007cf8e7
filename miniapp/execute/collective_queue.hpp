// SPDX-License-Identifier: Apache-2.0
// The collectives that a rank has started, one lane for each group of the program.
#pragma once

#include <vector>

#include <comm/communicator.hpp>
#include <comm/idle.hpp>

namespace shardmark {

/// Starts the collectives of a program and waits for them.
class CollectiveQueue {
 public:
  /// `groups[g]` is the communicator of Program::groups[g]; more may follow. All must outlive it.
  CollectiveQueue(std::vector<Communicator*> groups, Idle idle);

  /// Collective over the group. Throws CommError.
  Ticket start(int group, const Collective& collective) {
    return groups_[group]->start(collective);
  }
  /// What the compute lane does from now on comes after `ticket`. Throws CommError.
  void hold(int group, Ticket ticket);
  /// Lets the collectives of all groups advance. Throws CommError.
  void progress() {
    for (Communicator* group : groups_) group->progress();
  }
  /// Waits for all collectives that so far only hold a stream of the device. Throws CommError.
  void finish();

  /// Pauses as a rank does between two calls of progress().
  void pause() const { idle_.pause(); }
  /// Whether the collectives of a group, or of any, run on a stream of the device.
  bool on_stream(int group) const { return groups_[group]->on_stream(); }
  bool any_on_stream() const { return any_on_stream_; }
  Communicator& world() const { return *groups_[0]; }

 private:
  std::vector<Communicator*> groups_;
  std::vector<Ticket> held_;  // by group: the last that the compute lane waits for
  Idle idle_;
  bool any_on_stream_;
};

}  // namespace shardmark
