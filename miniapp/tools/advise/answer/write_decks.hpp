// SPDX-License-Identifier: Apache-2.0
// The files that `advise --write` leaves.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/advise/search.hpp>

namespace shardmark {

/// What was written.
struct WrittenAdvice {
  std::vector<std::string> files;  // decks and what lies beside them, the best deck first
  std::string summary;             // a file with the verdict and the notes
  std::string notes;               // lines about what a training script must do beside them
};

/// The path of the best deck in `folder`.
std::string best_deck(const Advice& advice, const std::string& folder);

/// Writes, for the best candidate and the best of each other stage, a deck into `folder`, which is
/// made if it is missing, and beside it what the deck's framework is to be given: a DeepSpeed
/// config, or the arguments for PyTorch as JSON and as Python. Each deck and each config is read
/// back, and its plan must be that of the candidate. `advice.txt` has the verdict and the notes.
/// Throws IoError.
WrittenAdvice write_decks(const Advice& advice, const std::string& folder);

}  // namespace shardmark
