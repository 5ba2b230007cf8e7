// SPDX-License-Identifier: Apache-2.0
// How the driver's ranks agree on errors and collect figures. The messages have a communicator of
// their own and are not counted. Inside a timed step only StopAgreement sends one. Everything here
// is collective.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <comm/communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

/// An error that all ranks know. `what()` is empty on every rank but the one that reports it.
struct AgreedError : Error {
  AgreedError(ExitStatus status, const std::string& what) : Error(status, what) {}
};

/// All ranks of a run, for agreement and for figures.
class Peers {
 public:
  explicit Peers(Communicator& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  /// The communicator beneath.
  Communicator& lane() { return comm_; }

  void barrier();
  /// Every rank's value, in rank order, on all ranks.
  template<class T>
  std::vector<T> gather(const T& mine) {
    return gather(std::vector<T>{mine});
  }
  /// Every rank's values, concatenated in rank order; all ranks give equally many.
  template<class T>
  std::vector<T> gather(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "only plain values cross ranks");
    std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
    gather_bytes(mine.data(), all.data(), static_cast<std::int64_t>(mine.size() * sizeof(T)));
    return all;
  }
  std::vector<std::string> gather(const std::string& mine);
  /// Collective. Returns "rank 2: …" with the text of the lowest rank whose `mine` is not empty, or
  /// an empty text if every rank's is empty.
  std::string first_text(const std::string& mine);
  /// Returns on all ranks what `rank` gives as `mine`.
  std::string broadcast(const std::string& mine, int rank);
  double max(double mine) {
    std::vector<double> all{mine};
    max(all);
    return all[0];
  }
  double min(double mine) { return -max(-mine); }
  /// Replaces each element by the largest over ranks. All ranks give equally many.
  void max(std::vector<double>& values);
  /// The same over the ranks of a group, which give equally many; an empty group stands for all
  /// ranks. All ranks call it at once, each with its own group.
  void max(std::vector<double>& values, const std::vector<int>& group);

  /// Replaces each element by its sum over ranks. All ranks give equally many.
  void sum(std::vector<double>& values);

  /// Starts to replace `value` by the largest over ranks, and returns at once. `value` must not be
  /// touched until `wait` has returned.
  Ticket start_max(double& value);
  /// Waits for what was started. Throws CommError.
  void wait(Ticket ticket) { comm_.wait(ticket); }

  /// Runs `body` on all ranks. If any of them throws, all throw AgreedError with the status of the
  /// lowest rank that failed; only that rank has the message.
  template<class Body>
  void agree(Body body) {
    Failure mine{ExitStatus::valid, {}};
    try {
      body();
    } catch (...) {
      mine = current_failure();
    }
    throw_if_any_failed(mine);
  }

 private:
  void gather_bytes(const void* mine, void* all, std::int64_t bytes);
  Ticket start_reduction(double* values, std::int64_t count, Reduction reduction);
  void throw_if_any_failed(const Failure& mine);

  Communicator& comm_;
};

/// Collective. The same random number on all ranks, which nobody can know before: it comes from the
/// system's source of randomness on rank 0.
std::uint64_t shared_seed(Peers& peers);

}  // namespace shardmark
