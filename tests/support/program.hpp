// SPDX-License-Identifier: Apache-2.0
// Runs the program as its users do: a command line, in a process group of its own, with a time
// limit. Every process of a launch inherits a mark in its environment, by which those that are left
// are found, whatever group or parent they have by then.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace shardmark::test {

struct Launch {
  std::vector<std::string> args;                        // of `shardmark`
  int ranks = 0;                                        // 0: without mpiexec
  std::map<std::string, std::string> environment = {};  // on top of the test's own
  double limit_s = 60;
  bool terminal = false;         // standard output is a terminal, else a file
  std::string stdout_path = {};  // which file, where not one of our own
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal as in a shell; -1 when the limit was passed
  bool timed_out = false;
  std::string out, err;
};

/// A process that a launch has started: `mpiexec`, one of its helpers, or a rank.
struct Found {
  pid_t pid = 0;
  int rank = -1;  // of the world, where the launcher says so in the environment; else -1
};

/// A launch under way. Whatever is left of it is killed when it goes out of scope.
class Program {
 public:
  /// Throws std::system_error.
  explicit Program(const Launch& launch);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }  // of mpiexec, or of the program itself
  /// Standard output so far.
  std::string out();
  /// Processes that run the program itself, or all of the launch. Zombies are none.
  std::vector<Found> ranks() const;
  std::vector<Found> left() const;
  /// Waits until standard output has `text`; false when the limit passes or the launch ends first.
  bool wait_for_output(const std::string& text, double limit_s);
  /// Waits for the end of the launch; past the limit all of it is killed.
  Outcome wait();
  /// Waits until no process of the launch is left; false when `limit_s` passes first.
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
  int terminal_ = -1;  // our end of it
  bool ended_ = false;
  int wait_status_ = 0;
};

/// Runs to the end. `out` and `err` are complete then.
Outcome run(const Launch& launch);

/// The lines of a text, without their ends; a last line without an end counts.
std::vector<std::string> lines_of(const std::string& text);

/// Within this all processes of a launch must be gone once its mpiexec has ended. Seconds.
constexpr double gone_limit_s = 10;

}  // namespace shardmark::test
