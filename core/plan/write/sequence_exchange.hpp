// SPDX-License-Identifier: Apache-2.0
// What ranks that divide samples send around attention: each of them has a part of the tokens and
// all heads before, and all tokens and a part of the heads in between (Jacobs et al., DeepSpeed
// Ulysses, 2023).
//
// Source of the calls and their order: DeepSpeed 0.19.8's
// runtime/sequence_parallel/ulysses_sp.py.
#pragma once

#include <core/plan/model/block_sizes.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// The blocks' buffers at hand, and the event's place.
struct AttentionPlace {
  int unit, module;
  int saved, workspace;
};

/// Appends the events of attention to a plan whose ranks divide samples.
class SequenceExchange {
 public:
  /// Declares its slots if ranks divide samples.
  SequenceExchange(Program& program, PlanWriter& writer);

  /// The slot that must be alive during a micro-batch; no_slot if ranks do not divide samples.
  int positions() const { return positions_; }
  /// Whether ranks divide samples. Otherwise nothing below is to be called.
  bool divides() const { return p_.sequence_group >= 0 && p_.trains; }
  /// The positions of this rank's tokens, which are loaded with the tokens.
  Operand own_positions() const;

  /// Attention, once q, k and v are there.
  void forward(const AttentionPlace& at);
  /// Its backward, once the gradient of its output is there.
  void backward(const AttentionPlace& at);

 private:
  enum class Way : std::uint8_t { to_heads, to_tokens };
  /// Exchanges a value, which lies at `from` bytes of a block's buffer, and then at `into`.
  void exchange(const AttentionPlace& at, Way way, int slot, Value value, std::int64_t from,
                std::int64_t into);
  void compute(Kernel kernel, const AttentionPlace& at, std::initializer_list<Operand> operands);
  /// A tensor at `bytes` bytes of a block's buffer.
  Operand part(int slot, std::int64_t bytes, std::int64_t elems) const;

  Program& p_;
  PlanWriter& w_;
  std::int64_t q_ = 0,
               kv_ = 0;      // elements of this rank's q, and of k and v while they are exchanged
  std::int64_t own_kv_ = 0;  // of k and v before and after
  int positions_ = no_slot, sent_ = no_slot, received_ = no_slot;
};

}  // namespace shardmark
