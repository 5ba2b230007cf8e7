// SPDX-License-Identifier: Apache-2.0
// Runs the program as users do: a command line, in a process group of its own, with a time limit.
// Every process of a launch inherits a mark in its environment. The mark identifies the processes
// that are left, whatever group or parent they have by then.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace shardmark::test {

struct Launch {
  std::vector<std::string> args;                        // the arguments of `shardmark`
  int ranks = 0;                                        // 0: without mpiexec
  std::map<std::string, std::string> environment = {};  // in addition to the test's own environment
  double limit_s = 60;
  bool terminal = false;  // standard output is a terminal instead of a file
  // Limits of the process and of each of its children; 0: none. Not for mpiexec.
  long file_limit_bytes = 0;     // no file may become larger
  long memory_limit_bytes = 0;   // of address space
  long cpu_limit_s = 0;          // a process that computes longer is ended by SIGXCPU
  std::string stdout_path = {};  // the file for standard output, if it is not a temporary one
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal as in a shell; -1 if the limit was exceeded
  bool timed_out = false;
  std::string out, err;
};

/// A process that a launch has started: `mpiexec`, one of its helpers, or a rank.
struct Found {
  pid_t pid = 0;
  int rank = -1;  // in the world, if the launcher sets it in the environment; else -1
};

/// A launch in progress. Whatever remains of it is killed when the object is destroyed.
class Program {
 public:
  /// Starts the launch. Throws std::system_error.
  explicit Program(const Launch& launch);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }  // of mpiexec, or of the program itself
  /// Returns the standard output so far.
  std::string out();
  /// Returns the processes that run the program itself, or all processes of the launch, without
  /// zombies.
  std::vector<Found> ranks() const;
  std::vector<Found> left() const;
  /// Waits until standard output contains `text`. Returns false if the limit is exceeded or the
  /// launch ends first.
  bool wait_for_output(const std::string& text, double limit_s);
  /// Waits for the end of the launch. When the limit is exceeded, all of its processes are killed.
  Outcome wait();
  /// Waits until no process of the launch is left. Returns false if `limit_s` is exceeded first.
  bool wait_until_gone(double limit_s) const;

 private:
  [[noreturn]] void become(const Launch& launch, int out, int err);
  std::vector<Found> find(bool only_ranks) const;
  void take_output();
  bool ended();
  void kill_all();

  std::string mark_, err_path_, out_path_, out_;
  double limit_s_;
  pid_t pid_ = -1;
  int terminal_ = -1;  // the test's end of the terminal
  bool ended_ = false;
  int wait_status_ = 0;
};

/// Runs the launch to its end, after which `out` and `err` are complete. If the launcher was lost,
/// the launch is repeated once.
Outcome run(const Launch& launch);

/// Returns whether the launcher ended by SIGPIPE without a message. MPICH's launcher sometimes
/// writes to one of its own processes that has already ended with its ranks.
bool launcher_was_lost(const Launch& launch, const Outcome& outcome);

/// Returns the major version of Open MPI if its launcher starts the ranks, else 0. It turns SIGINT
/// into SIGTERM for them.
int open_mpi_version();
inline bool launcher_is_open_mpi() {
  return open_mpi_version() != 0;
}

/// Returns the lines of a text without their line ends; a last line without an end counts.
std::vector<std::string> lines_of(const std::string& text);

/// All processes of a launch must be gone within this time after its mpiexec has ended. In seconds.
constexpr double gone_limit_s = 10;

}  // namespace shardmark::test
