// SPDX-License-Identifier: Apache-2.0
// What ranks that divide the experts of a layer send each other around them: how many rows each
// expert has, the rows themselves, and the experts' outputs on the way back; in backward the
// gradients of both (Lepikhin et al., GShard, 2020).
//
// Source of the calls and their order: DeepSpeed 0.19.8's module_inject/auto_ep_layer.py.
#pragma once

#include <vector>

#include <core/plan/model/transformer_sizes.hpp>
#include <core/plan/plan.hpp>
#include <core/plan/write/lane_exchange.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// Appends the collectives around experts to a plan whose ranks divide them.
class ExpertExchange {
 public:
  /// Declares its slots if ranks divide experts. If ranks divide layers as well, they use
  /// `tensors`.
  ExpertExchange(Program& program, PlanWriter& writer, TensorExchange& tensors);

  /// Whether ranks divide experts. Otherwise nothing below is to be called.
  bool divides() const { return p_.expert_group >= 0 && p_.trains; }
  int counts_sent() const { return counts_sent_; }
  int counts_received() const { return counts_received_; }
  int home() const { return home_; }
  int away() const { return away_; }
  const LaneExchange& lanes() const { return lanes_; }

  /// Whether learned routing decides in each step how many rows the ranks send each other.
  bool routes() const { return routes_; }

  /// To be called around a pass of `module`, before what is sent is made.
  void begin(bool forward, int module);
  void end(bool forward);
  /// Sends the counts of rows; the rows, or their gradients, to the ranks that have the experts;
  /// and what comes of them back.
  void send_counts();
  void send_away(bool forward);
  void send_home(bool forward);

 private:
  void send(Operand from, Operand into, const std::vector<std::int64_t>& to,
            const std::vector<std::int64_t>& from_each, Routed routed);

  // What this rank may send of the rows at home: those of its lane.
  Operand own_rows(bool writes) const;

  Program& p_;
  PlanWriter& w_;
  LaneExchange lanes_;
  std::vector<std::int64_t> to_, from_;  // elements, by place in the group
  std::int64_t largest_ = 0;             // that any two ranks exchange
  bool even_ = true;                     // all ranks send each other as much
  bool routes_ = false;
  int module_ = -1;  // around whose pass this is
  std::int64_t first_own_ = 0, own_ = 0;
  int counts_sent_ = -1, counts_received_ = -1, home_ = -1, away_ = -1;
};

}  // namespace shardmark
