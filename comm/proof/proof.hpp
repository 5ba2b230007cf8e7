// SPDX-License-Identifier: Apache-2.0
// The proof of a run: its groups, which steps are proved, what was found and what it cost.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <comm/proof/group_proof.hpp>
#include <core/clock.hpp>

namespace shardmark {

class ProvingCommunicator;

/// Shared by a ProvingCommunicator and its splits, whose proofs it owns.
class Proof {
 public:
  explicit Proof(ProofOptions options) : options_(options) {}

  /// Proves the collectives that are started from now on, as those of `step`, until `end`. `key` is
  /// drawn anew for each step and is the same on all ranks. Nothing may be in flight.
  void begin(std::int64_t step, std::uint64_t key) {
    on_ = true;
    for (auto& group : groups_) group->begin(step, key);
  }
  /// Collective over all groups; nothing may be in flight. Compares the folds of the step.
  void end() {
    for (auto& group : groups_) compare(*group);
    on_ = false;
  }

  bool on() const { return on_; }
  /// What this rank found wrong so far.
  const std::vector<ProofFailure>& failures() const { return failures_; }
  /// The number of collectives that were proved so far, of all groups of this rank.
  std::int64_t proved() const {
    std::int64_t sum = 0;
    for (const auto& group : groups_) sum += group->proved();
    return sum;
  }
  /// The time spent folding and comparing so far.
  std::int64_t spent_ns() const { return spent_ns_; }

 private:
  friend class ProvingCommunicator;
  // Adds the time of its scope to the time spent.
  class Timer {
   public:
    explicit Timer(Proof& proof) : proof_(proof) {}
    ~Timer() { proof_.spent_ns_ += monotonic_ns() - begin_ns_; }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    Proof& proof_;
    std::int64_t begin_ns_ = monotonic_ns();
  };
  GroupProof& add_group(Communicator& lane, Backend backend) {
    return *groups_.emplace_back(std::make_unique<GroupProof>(lane, backend, options_));
  }
  void settle();
  void compare(GroupProof& group) {
    const Timer timer(*this);
    group.compare(failures_);
  }

  ProofOptions options_;
  std::vector<std::unique_ptr<GroupProof>> groups_;  // in the order in which they were split off
  std::vector<ProvingCommunicator*> communicators_;
  std::vector<ProofFailure> failures_;
  bool on_ = false;
  std::int64_t spent_ns_ = 0;
};

}  // namespace shardmark
