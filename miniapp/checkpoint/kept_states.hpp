// SPDX-License-Identifier: Apache-2.0
// What one step needs to be made again later, with as few bytes as that takes. A value that a rank
// has twice is kept once: parameters that are their masters, as they are or rounded, are made of
// them. Where nothing but the gradient is asked of Adam's moments, they are not kept: the step that
// is made again begins with moments of zero, and ends with what its gradient adds to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <io/checkpoint/state_reader.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/prove/step_prover.hpp>

namespace shardmark {

/// Whether each fp32 parameter of this rank is its master or another rank's, and is updated by
/// Adam or AdamW from fp32 moments of the same elements, so that KeptStates may leave moments out.
bool can_leave_moments_out(const Program& program);

/// The states of one rank before a step, in host memory.
class KeptStates {
 public:
  /// How many bytes keep() will take, if parameters are what their masters say.
  static std::int64_t bytes_to_keep(const Program& program, const Executor& executor,
                                    bool with_moments);

  /// Copies the states between two steps. Local, as everything here.
  void keep(const Program& program, const Executor& executor, bool with_moments);
  std::int64_t bytes() const { return bytes_; }  // of host memory

  /// After the step, without moments: the elements that it updated.
  std::vector<UpdatedRange> updated(const Program& program, const Executor& executor) const;
  /// After the step: names fp32 parameters that are no copies of their masters any more; empty:
  /// there are none.
  std::string strayed(const Program& program, const Executor& executor) const;

  /// Puts all states into another session of a program with the same states, moments that were not
  /// kept as zeros, and drops the copy. Throws PlanError if that program has other states.
  void restore(const Program& program, const Executor& executor);

 private:
  enum class Source : std::uint8_t { copied, master, zero };
  struct Kept {
    WantedElements where;  // its address is that of keep(), where files are mapped elsewhere
    Source source = Source::copied;
    std::size_t master = 0;  // where source is `master`: its number here
    std::unique_ptr<std::byte[]> bytes = {};
  };

  std::vector<Kept> kept_;
  std::int64_t bytes_ = 0;
};

}  // namespace shardmark
