// SPDX-License-Identifier: Apache-2.0
// The typed errors of ShardMark. Each type maps to one exit status (see README, "Exit statuses");
// `main` is the only place that does the mapping, so that a library user can catch by type.
#pragma once

#include <stdexcept>
#include <string>

namespace shardmark {

/// What the process returns to the shell; the same on every rank.
enum class ExitStatus : int { valid = 0, invalid = 1, usage = 2, memory = 3, output = 4, comm = 5 };

/// Base of all ShardMark errors. `what()` is one line: place, value, bound, remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& what) : std::runtime_error(what), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

/// A deck, an argument, or a file that the deck names is wrong.
struct DeckError : Error {
  explicit DeckError(const std::string& what) : Error(ExitStatus::usage, what) {}
};
/// A plan is not legal, or cannot be built (counts beyond 63 bits, shapes that do not fit
/// together).
struct PlanError : Error {
  explicit PlanError(const std::string& what) : Error(ExitStatus::usage, what) {}
};
/// The run does not fit in memory.
struct MemoryError : Error {
  explicit MemoryError(const std::string& what) : Error(ExitStatus::memory, what) {}
};
/// Output cannot be written, or a checkpoint cannot be used.
struct IoError : Error {
  explicit IoError(const std::string& what) : Error(ExitStatus::output, what) {}
};
/// A collective failed or timed out, or a peer is lost.
struct CommError : Error {
  explicit CommError(const std::string& what) : Error(ExitStatus::comm, what) {}
};

}  // namespace shardmark
