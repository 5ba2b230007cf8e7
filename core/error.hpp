// SPDX-License-Identifier: Apache-2.0
// The typed errors of ShardMark. Each type maps to one exit status (docs/output.md lists them);
// `main` is the only place that does the mapping, so that a library user can catch by type.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace shardmark {

/// What the process returns to the shell; the same on every rank.
enum class ExitStatus : int {
  valid = 0,
  invalid = 1,
  usage = 2,
  memory = 3,
  output = 4,
  comm = 5,
  stopped = 6,  // by a signal or the time limit, after a step; not an error
  defect = 70   // of ShardMark itself; EX_SOFTWARE of sysexits.h
};

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
/// A plan is not legal, or shapes in it do not fit together: a defect of a schedule or of a kernel,
/// whatever the deck says.
struct PlanError : Error {
  explicit PlanError(const std::string& what) : PlanError(ExitStatus::defect, what) {}

 protected:
  PlanError(ExitStatus status, const std::string& what) : Error(status, what) {}
};
/// A plan cannot be built because the deck's sizes, or the number of ranks, leave what counts or
/// scratch can hold.
struct SizeError : PlanError {
  explicit SizeError(const std::string& what) : PlanError(ExitStatus::usage, what) {}
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

/// How an exception ends a command.
struct Failure {
  ExitStatus status;
  std::string what;
};

/// The failure that the exception stands for which is being handled; to be called in a `catch`. An
/// exception that is none of the above is a defect, except that memory may be exhausted.
inline Failure current_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.status(), e.what()};
  } catch (const std::bad_alloc&) {
    return {ExitStatus::memory, "the system has no more memory for this process"};
  } catch (const std::exception& e) {
    return {ExitStatus::defect, e.what()};
  } catch (...) {
    return {ExitStatus::defect, "an exception of an unknown type"};
  }
}

}  // namespace shardmark
