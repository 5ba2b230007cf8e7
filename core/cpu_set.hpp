// SPDX-License-Identifier: Apache-2.0
// Sets of cores of any size, as the scheduler knows them. cpu_set_t ends at 1024 cores.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

/// A set of cores of this machine.
class CpuSet {
 public:
  CpuSet() = default;
  explicit CpuSet(const std::vector<int>& cores);

  /// The cores that the calling thread may use. Throws CommError if the system does not say.
  static CpuSet of_thread();
  /// The cores that the threads of this process may use. An OpenMP runtime that binds its threads
  /// has bound the main one, too, before main(); its places then say what the process was given.
  /// Throws CommError.
  static CpuSet of_process();

  bool contains(int core) const;
  void add(int core);
  void add(const CpuSet& other);
  int count() const { return static_cast<int>(cores().size()); }
  /// All cores, ascending.
  std::vector<int> cores() const;
  /// "0-3,8"
  std::string text() const;
  bool operator==(const CpuSet& other) const { return cores() == other.cores(); }

  /// Lets the calling thread, and those that it starts later, run on these cores alone. False if
  /// the system refuses.
  bool bind_thread() const;

  /// The set as bits, in words of 64 cores, for communication.
  const std::vector<unsigned long>& words() const { return words_; }
  static CpuSet of_words(std::vector<unsigned long> words);

 private:
  std::vector<unsigned long> words_;
};

/// How OpenMP binds the threads of this process: "false" if it does not or is not there, else
/// "true", "primary", "close" or "spread".
std::string openmp_binding();

/// For a thread that the program starts beside those of OpenMP: lets it run on all cores of the
/// process, also if it was started by a thread that OpenMP has bound. Does nothing where OpenMP
/// binds nothing, or where the system refuses.
void run_on_all_cores_of_process();

}  // namespace shardmark
