// SPDX-License-Identifier: Apache-2.0
// What every stage has beside its settings, and the base of a stage's own parts, which use it.
#pragma once

#include <core/plan/deepspeed/collectives.hpp>
#include <core/plan/deepspeed/model_gradients.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>

namespace shardmark {

/// The context of a stage, with the parts that all stages have.
struct StageContext : DeepSpeedContext {
  StageContext(Program& p, const Deck& d, const Profile& machine)
      : DeepSpeedContext(p, d, machine), collectives(*this), grads(*this), scalars(*this) {}

  Collectives collectives;
  ModelGradients grads;
  StepScalars scalars;
};

/// The base of parts that use them.
class StagePart : protected DeepSpeedPart {
 protected:
  explicit StagePart(StageContext& context)
      : DeepSpeedPart(context),
        collectives_(context.collectives),
        grads_(context.grads),
        scalars_(context.scalars) {}

  Collectives& collectives_;
  ModelGradients& grads_;
  StepScalars& scalars_;
};

}  // namespace shardmark
