// SPDX-License-Identifier: Apache-2.0
// `model.fit`: the largest number of layers whose plan stays within a part of the memory budget. It
// is a pure function with the same result on every rank, so a run and `shardmark plan` agree.
// Which changes of a deck that does not fit in memory make it fit: each is planned before it is
// named.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/plan.hpp>

namespace shardmark {

/// More layers than this are not considered. The deepest published models have about a hundred.
inline constexpr std::int64_t most_layers_to_fit = 1024;

/// The memory that a rank may use.
struct FitBudget {
  std::int64_t bytes = 0;   // the whole budget; Deck::model.fit is the part of it to fill
  bool both_tiers = false;  // bytes are for device and host together; false: for the device
  std::string source;       // "memory.device_gib of the deck"
};

/// The number of layers that fits, with the figures that show it.
struct Fit {
  std::int64_t layers = 0;       // 0: not even one fits
  std::int64_t bytes = 0;        // of `layers` (of one if none fits) on the rank that needs most
  std::int64_t next_bytes = 0;   // of one layer more, at least; 0: most_layers_to_fit was reached
  std::int64_t limit_bytes = 0;  // the part of the budget
  double part = 1;               // of the budget
  FitBudget budget;
};

/// Ranks that include one that needs most memory. All ranks need the same except under DeepSpeed's
/// stages 1 and 2, which keep whole gradients of every parameter that touches a rank's partition. A
/// rank that keeps fewer elements than another rank, and none of them earlier, needs no more
/// memory.
std::vector<int> heaviest_ranks(const Deck& deck, int world);

/// Uses `deck.model.fit` and ignores `layers`. The result fits, and one layer more does not. A
/// deeper model may fit by chance, since the gaps in an arena need not grow with every layer.
/// Throws what build_program throws.
Fit fit_layers(const Deck& deck, const Batch& batch, int world, const Profile& profile,
               const FitBudget& budget);

/// Finds the number of layers and sets it, if the deck gives `model.fit`. It sets at least 1, so
/// that there is a plan.
std::optional<Fit> apply_fit(Deck& deck, const Batch& batch, int world, const Profile& profile,
                             const FitBudget& budget);

/// "6 layers: 1.2 GiB per rank are within 80 % of 1.5 GiB (memory.device_gib of the deck); one more
/// needs 1.3 GiB"
std::string describe(const Fit& fit);

/// How `model.fit` chose the number of layers, for scripts.
nlohmann::ordered_json print_json(const Fit& fit);

/// Whether a program fits in the memory that there is.
using Fits = std::function<bool(const Program&)>;

/// The changes after which the plan of `rank` fits, each made alone: "ZeRO stage 2",
/// "offload_optimizer", "run.activation_checkpointing". A change that the schedule refuses, or that
/// does not apply, is left out. The start-up is planned first, so that a model whose states do not
/// fit costs no plan of its steps. Pure, if `fits` is.
std::vector<std::string> changes_that_fit(const Deck& deck, const Batch& batch, int world, int rank,
                                          const Profile& profile, const Fits& fits);

}  // namespace shardmark
