// SPDX-License-Identifier: Apache-2.0
// What the parts of both of PyTorch's wrappers share, DistributedDataParallel and fully_shard.
#pragma once

#include <core/plan/torch/gradient_flow.hpp>
#include <core/plan/write/schedule_part.hpp>
#include <core/plan/write/staged_collectives.hpp>

namespace shardmark {

/// The program that is being written, and which of its parameters need a gradient.
struct TorchContext : ScheduleContext {
  TorchContext(Program& p, const Deck& deck, const Profile& machine)
      : ScheduleContext(p, machine),
        spec(deck.torch),
        optimizer(deck.zero.optimizer.type),
        collectives(writer, p, machine),
        flow(follow_gradients(p.model, spec.frozen, deck.path + ": torch.frozen")) {}
  bool ordered() const { return program.reductions == Reductions::ordered; }

  const TorchSpec& spec;
  const Optimizer optimizer;
  StagedCollectives collectives;
  const GradientFlow flow;
};

using TorchPart = SchedulePart<TorchContext>;

}  // namespace shardmark
