// SPDX-License-Identifier: Apache-2.0
// The files that `advise --write` leaves.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/advise/search.hpp>

namespace shardmark {

/// Writes, for the best candidate and the best of each other stage, a deck into `folder`, which is
/// made if it is missing, and beside it what the deck's framework is to be given: a DeepSpeed
/// config, or the arguments for PyTorch as JSON and as Python. Each deck and each config is read
/// back, and its plan must be that of the candidate. Returns the paths, the best deck first. Throws
/// IoError.
std::vector<std::string> write_decks(const Advice& advice, const std::string& folder);

}  // namespace shardmark
