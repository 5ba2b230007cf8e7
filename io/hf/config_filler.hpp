// SPDX-License-Identifier: Apache-2.0
// Fills "auto" in a DeepSpeed config as Hugging Face's libraries do before DeepSpeed reads it:
// HfTrainerDeepSpeedConfig in src/transformers/integrations/deepspeed.py of transformers 5.23, and
// DeepSpeedPlugin in src/accelerate/utils/dataclasses.py of Accelerate 1.15. They fill the same
// keys in the same order here.
#pragma once

#include <optional>

#include <core/plan/deck/deck.hpp>
#include <io/hf/hf_arguments.hpp>

namespace shardmark {

/// What the values of "auto" depend on.
struct FillContext {
  const HfArguments* hf = nullptr;  // none: the deck has no section `hf`
  const ModelSpec* model = nullptr;
  std::optional<int> world;  // unknown to `deck check` without --ranks
};

/// Returns the config as DeepSpeed gets it: in Accelerate's form (an object with
/// `deepspeed_config`) it is translated, and with `hf` every "auto" that the trainer fills is
/// filled. A config in neither case is returned as it is. Each value becomes a finding. Throws
/// DeckError for values that contradict `hf`, all of them in one message; for an "auto" that cannot
/// be known, naming the key of `hf` that decides it; and for what Accelerate refuses.
Json fill_config(Origin& origin, const Json& config, const FillContext& context);

}  // namespace shardmark
