// SPDX-License-Identifier: Apache-2.0
// The proof of a run: its groups, which steps are proved, what was found and what it cost.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <comm/proof/group_proof.hpp>

namespace shardmark {

class ProvingCommunicator;

/// Shared by a ProvingCommunicator and its splits, whose proofs it owns.
class Proof {
 public:
  explicit Proof(ProofOptions options) : options_(options) {}

  /// Proves the collectives that are started from now on, as those of `step`, until `end`. `key` is
  /// drawn anew for each step and is the same on all ranks. Nothing may be in flight.
  void begin(std::int64_t step, std::uint64_t key);
  /// Collective over all groups; nothing may be in flight. Compares the folds of the step.
  void end();

  bool on() const { return on_; }
  /// What this rank found wrong so far.
  const std::vector<ProofFailure>& failures() const { return failures_; }
  /// The number of collectives that were proved so far, of all groups of this rank.
  std::int64_t proved() const;
  /// The time spent folding and comparing so far.
  std::int64_t spent_ns() const { return spent_ns_; }

 private:
  friend class ProvingCommunicator;
  class Timer;
  GroupProof& add_group(Communicator& lane, Backend backend);
  void settle();
  void compare(GroupProof& group);

  ProofOptions options_;
  std::vector<std::unique_ptr<GroupProof>> groups_;  // in the order in which they were split off
  std::vector<ProvingCommunicator*> communicators_;
  std::vector<ProofFailure> failures_;
  bool on_ = false;
  std::int64_t spent_ns_ = 0;
};

/// Adds the time of its scope to the time spent.
class Proof::Timer {
 public:
  explicit Timer(Proof& proof);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  Proof& proof_;
  std::int64_t begin_ns_;
};

}  // namespace shardmark
