// SPDX-License-Identifier: Apache-2.0
// The decks that `advise --write` leaves.
#pragma once

#include <string>
#include <vector>

#include <miniapp/advise/search.hpp>

namespace shardmark {

/// Writes, for the best candidate and the best of each other stage, a deck and the DeepSpeed
/// configuration inside it as a file of its own, into `folder`, which is made if it is missing.
/// Returns the paths. Throws IoError.
std::vector<std::string> write_decks(const Advice& advice, const std::string& folder);

}  // namespace shardmark
