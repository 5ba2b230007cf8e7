// SPDX-License-Identifier: Apache-2.0
// Start-up and optimizer step of `fully_shard`: each rank updates the elements that it holds,
// tensor by tensor, and sends nothing but the norm.
#pragma once

#include <core/plan/torch/fsdp_context.hpp>
#include <core/plan/torch/torch_scalars.hpp>

namespace shardmark {

class FsdpUpdates : private FsdpPart {
 public:
  explicit FsdpUpdates(FsdpContext& context)
      : FsdpPart(context),
        scalars_(context, context.state_tier()),
        steps_(w_.slot("optimizer_steps", Category::workspace, Dtype::fp32, trained_count(),
                       Tier::host, "optimizer_steps")) {}

  void init();
  void boundary();
  void update();

 private:
  std::int64_t trained_count() const;
  void place(int group);
  void update_group(int group);

  TorchScalars scalars_;
  const int steps_;  // PyTorch's optimizers count steps in one tensor per parameter, on the host
};

}  // namespace shardmark
