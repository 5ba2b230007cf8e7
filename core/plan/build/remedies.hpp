// SPDX-License-Identifier: Apache-2.0
// Which changes of a deck that does not fit in memory make it fit: each is planned before it is
// named.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// Whether a program fits in the memory that there is.
using Fits = std::function<bool(const Program&)>;

/// The changes after which the plan of `rank` fits, each made alone: "ZeRO stage 2",
/// "offload_optimizer", "run.activation_checkpointing". A change that the schedule refuses, or that
/// does not apply, is left out. The start-up is planned first, so that a model whose states do not
/// fit costs no plan of its steps. Pure, if `fits` is.
std::vector<std::string> changes_that_fit(const Deck& deck, const Batch& batch, int world, int rank,
                                          const Profile& profile, const Fits& fits);

}  // namespace shardmark
