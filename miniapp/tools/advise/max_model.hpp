// SPDX-License-Identifier: Apache-2.0
// The largest model that fits on given devices, by stage: as Rajbhandari et al. compute it (ZeRO,
// SC20, tables 1 and 2), and as the plan of a deck's own family needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// Bytes of model states per parameter and rank at a stage, for mixed precision with Adam: 2 of the
/// parameters, 2 of the gradients and 12 of the optimizer, each divided among `ranks` ranks from
/// its stage on (ZeRO, section 5 and figure 1).
double state_bytes_per_parameter(int stage, int ranks);

/// The parameters whose states fill `bytes` of each of `ranks` ranks (ZeRO, table 2), of which
/// `tensor` ranks at a time divide every layer.
double most_parameters(int stage, int ranks, int tensor, double bytes);

/// The largest model at one stage.
struct MaxModel {
  int stage = 0;
  // Parameters, by model states alone. Empty where ranks divide experts: it depends on how many of
  // the parameters are experts.
  std::optional<double> by_states = {};
  std::int64_t layers = 0;      // of the deck's width, by the whole plan
  std::int64_t parameters = 0;  // with these layers
  std::int64_t bytes = 0;       // that one rank then allocates on the device
  std::string refusal = {};     // why the stage is refused; empty: it is not
};

/// The largest models, and of which kind they are.
struct MaxModels {
  Deck deck;  // at stage 3; its layers are not those of the answer
  Batch batch;
  std::int64_t budget = 0;  // bytes of a device
  std::vector<MaxModel> stages;
};

/// The largest models at stages 0 to 3, with the deck's width, micro-batch and recomputation, under
/// a schedule of the framework. Throws DeckError for a deck that is wrong, a list of modules, or a
/// machine whose memory is unknown, and MemoryError if no layer fits at any stage.
MaxModels max_models(const AdviseCase& question);

}  // namespace shardmark
