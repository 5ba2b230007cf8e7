// SPDX-License-Identifier: Apache-2.0
// The deck that a command is given: a deck, or a model's config.json with a DeepSpeed config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// Arguments that say which deck a command is about.
struct DeckArguments {
  std::string deck;
  std::vector<std::string> sets;
  // In place of a deck: a model config of Hugging Face and a DeepSpeed config.
  std::string model, deepspeed;
  int sequence = 0;  // tokens per sample; 0: what the deck or the model config says
  int batch = 0;     // samples per step on all ranks together; 0: what the deck says
};

/// The deck, as a path or as its text, with the changes that the other arguments make to it.
struct GivenDeck {
  std::string deck;
  std::vector<std::string> sets;
};

/// Throws DeckError, which names `command`, if there is no deck, or two models, or no batch.
GivenDeck given_deck(const DeckArguments& arguments, std::string_view command);

/// How many ranks share a node: `given`, or if that is 0 as many as the machine has devices per
/// node, or if it does not say that `otherwise`.
int ranks_of_a_node(int given, const Machine& machine, int otherwise = 1);

/// Returns the arguments as words of a command line.
std::string deck_words(const DeckArguments& arguments);

/// A word of a command line, quoted where a shell would change it.
std::string shell_word(const std::string& text);

}  // namespace shardmark
