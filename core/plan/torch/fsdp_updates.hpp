// SPDX-License-Identifier: Apache-2.0
// Start-up and optimizer step of `fully_shard`: each rank updates the elements that it holds,
// tensor by tensor, and sends nothing but the norm.
#pragma once

#include <core/plan/torch/fsdp_context.hpp>
#include <core/plan/torch/torch_scalars.hpp>

namespace shardmark {

class FsdpUpdates {
 public:
  explicit FsdpUpdates(FsdpContext& context)
      : c_(context),
        p_(context.program),
        w_(context.writer),
        scalars_(w_, p_, context.collectives, context.state_tier()),
        steps_(w_.slot("optimizer_steps", Category::workspace, Dtype::fp32, trained_count(),
                       Tier::host, "optimizer_steps")) {}

  void init();
  void boundary();
  void update();

 private:
  std::int64_t trained_count() const;
  void place(int group);
  void update_group(int group);

  FsdpContext& c_;
  Program& p_;
  PlanWriter& w_;
  TorchScalars scalars_;
  const int steps_;  // PyTorch's optimizers count steps in one tensor per parameter, on the host
};

}  // namespace shardmark
