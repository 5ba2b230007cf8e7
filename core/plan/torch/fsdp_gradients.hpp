// SPDX-License-Identifier: Apache-2.0
// The gradients of `fully_shard`, from a module's backward to this rank's shards of the sum: whole
// gradients tensor by tensor, copied into one flat message per group, which one reduce_scatter
// reduces, and with replicas an all_reduce of its result.
//
// Source: torch 2.15, _fsdp_param_group.py, post_backward, and _fsdp_collectives.py,
// foreach_reduce.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <vector>

#include <core/plan/torch/fsdp_context.hpp>
#include <core/plan/torch/fsdp_params.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

class FsdpGradients : private FsdpPart {
 public:
  FsdpGradients(FsdpContext& context, FsdpParams& params)
      : FsdpPart(context),
        params_(params),
        division_(gradient_division(context.spec, context.reduce_dtype, context.ranks(),
                                    context.world_replicas())) {}

  void begin_backward(const MicroBatch& micro);
  /// Writes the backward of a module, whose parameters are whole.
  void backward(int module);
  /// What PyTorch does once a group's gradients are complete: drops its parameters, if `reshards`,
  /// and reduces.
  void post_backward(int group, bool reshards);
  /// Completes all reductions. `last` is false if the script says that more backward passes follow.
  void finish(bool last);
  /// Whether the gradients of this micro-batch are reduced.
  bool reduces() const { return c_.spec.requires_gradient_sync || micro_.last; }

 private:
  bool reduces_among_replicas() const { return c_.spec.requires_all_reduce || micro_.last; }
  bool wider(int param) const { return c_.kept_gradients[param] != c_.gradients[param]; }
  void keep(int param);
  void copy_in(const FsdpGroup& g, const FsdpSlots& s);
  void reduce(int group);
  void complete();
  void store(int group, int output);

  FsdpParams& params_;
  const GradientDivision division_;
  MicroBatch micro_;
  std::deque<int> inputs_;    // groups whose messages are kept until their reductions are complete
  std::vector<int> outputs_;  // groups whose reduced messages are kept until the end of backward
  struct Pending {
    int group, output;
  };
  std::optional<Pending> pending_;  // reduced, but not yet divided, cast and added up
};

}  // namespace shardmark
