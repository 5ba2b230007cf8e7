// SPDX-License-Identifier: Apache-2.0
// What PyTorch is to be given, in a form that programs read and in one that people paste.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

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
