// SPDX-License-Identifier: Apache-2.0
// Gradients that are sent as int4 and scales (zero_quantized_gradients, ZeRO++'s qgZ). Each rank
// quantizes a whole gradient and exchanges its parts within the node. The ranks of a node add up
// what they received and quantize the sums, and exchange those with the ranks of the same number on
// the other nodes. What a rank then adds up is its shard.
//
// Source: DeepSpeed 0.19.8's runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce, and
// its callers in runtime/zero/stage3.py and utils/groups.py. It needs CUDA, so nothing was
// recorded. On one node DeepSpeed reduce-scatters as without the key. It divides the sum by the
// number of nodes only, so its gradients are too large by the number of ranks in a node; here they
// are divided by the number of ranks, as those that are reduce-scattered.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <core/plan/deepspeed/stage_part.hpp>

namespace shardmark {

/// Writes the events of quantized reductions and owns the slots of what is sent.
class QuantizedReduce : private StagePart {
 public:
  /// Adds the groups of ranks. Throws DeckError if DeepSpeed can not build them, or if gradients
  /// are not sent as fp16, which is what its kernels read.
  explicit QuantizedReduce(StageContext& context);

  /// Whether gradients are sent in this way, each by itself: there are several nodes.
  bool active() const { return nodes_ > 1; }
  /// Whether this gradient is quantized; otherwise it is reduce-scattered. Throws DeckError if
  /// DeepSpeed fails to do so.
  bool quantizes(int id) const;
  /// Reduces the whole gradient `grad` and returns this rank's shard of the average, in a slot that
  /// the caller releases.
  Operand reduce(int id, Operand grad);
  /// Frees what the last of a bucket's gradients used.
  void finish();

 private:
  // What lives until the next gradient has its own. DeepSpeed holds each in a variable.
  enum Buffer : std::size_t {
    sent,
    sent_scales,
    received,
    received_scales,
    node_sums,
    node_scales,
    exchanged,
    exchanged_scales,
    restored,
    buffers
  };
  using Slots = std::array<int, buffers>;
  struct Gradient {
    Slots slots{};
    int sum = no_slot, shard = no_slot;
  };
  Gradient& declare(int id);
  void hold(const Gradient& gradient, Buffer buffer);
  void exchange(const Gradient& gradient, Buffer from, Buffer into, int id, int group);

  int nodes_ = 1, node_ranks_ = 1;
  int within_ = 0, between_ = 0;     // groups
  std::vector<Gradient> gradients_;  // by parameter
  Slots held_{};                     // by buffer
};

}  // namespace shardmark
