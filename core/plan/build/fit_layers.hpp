// SPDX-License-Identifier: Apache-2.0
// `model.fit`: the largest number of layers whose plan stays within a part of the memory budget.
// Pure, and the same on every rank, so a run and `shardmark plan` choose alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// More layers than this are not looked at; the deepest published models have about a hundred.
inline constexpr std::int64_t most_layers_to_fit = 1024;

/// What a rank may use.
struct FitBudget {
  std::int64_t bytes = 0;   // all of it, of which Deck::model.fit is the part to fill
  bool both_tiers = false;  // bytes are for device and host together; false: for the device
  std::string source;       // "memory.device_gib of the deck"
};

/// The number of layers that fits, with the figures that show it.
struct Fit {
  std::int64_t layers = 0;  // 0: not even one fits
  std::int64_t bytes = 0;   // of `layers` (or of one, where none fits) on the rank that needs most
  std::int64_t next_bytes = 0;   // at least, of one layer more; 0: most_layers_to_fit was reached
  std::int64_t limit_bytes = 0;  // the part of the budget
  double part = 1;               // of the budget
  FitBudget budget;
};

/// Ranks among which is one that needs most memory. All ranks need the same but under DeepSpeed's
/// stages 1 and 2, which keep whole gradients of every parameter that touches a rank's partition:
/// there a rank that keeps fewer elements than another, and none earlier, needs no more than it.
std::vector<int> heaviest_ranks(const Deck& deck, int world);

/// Takes `deck.model.fit` and leaves `layers` aside. The result fits and one layer more does not;
/// what an arena's gaps add need not grow with every layer, so a deeper model may fit by chance.
/// Throws PlanError, DeckError as build_program does.
Fit fit_layers(const Deck& deck, const Batch& batch, int world, const Profile& profile,
               const FitBudget& budget);

/// Where the deck asks for it, finds the number of layers and sets it; at least 1, so that there is
/// a plan to look at.
std::optional<Fit> apply_fit(Deck& deck, const Batch& batch, int world, const Profile& profile,
                             const FitBudget& budget);

/// "6 layers: 1.2 GiB a rank are within 80 % of 1.5 GiB (memory.device_gib of the deck); one more
/// needs 1.3 GiB"
std::string describe(const Fit& fit);

}  // namespace shardmark
