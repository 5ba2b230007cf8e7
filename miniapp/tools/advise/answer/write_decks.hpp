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

/// Writes a file of --write. Throws IoError.
void write_text(const std::string& path, const std::string& text);

/// The path of the best deck in `folder`.
std::string best_deck(const Advice& advice, const std::string& folder);

/// Writes, for the best candidate and the best of each other stage, a deck into `folder`, which is
/// made if it is missing, and beside it what the deck's framework is to be given: a DeepSpeed
/// config, or the arguments for PyTorch as JSON and as Python. Each deck and each config is read
/// back, and its plan must be that of the candidate. `advice.txt` has the verdict and the notes.
/// Throws IoError.
WrittenAdvice write_decks(const Advice& advice, const std::string& folder);

/// What is to be given to PyTorch for a deck of the schedule torch.
struct TorchAdvice {
  const Deck& deck;
  const Batch& batch;
  int ranks = 1;
};

/// {"wrapper", "world_size", "torch": {…}, …}: the section `torch` of the deck, complete, beside
/// batch, optimizer, clipping and recomputation.
nlohmann::ordered_json torch_json(const TorchAdvice& advice);

/// A Python module with a function that wraps a model: the calls of `fully_shard` or of
/// DistributedDataParallel, with PyTorch's own names.
std::string torch_python(const TorchAdvice& advice);

}  // namespace shardmark
