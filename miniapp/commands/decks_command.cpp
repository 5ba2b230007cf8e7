// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/shipped_decks.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

ExitStatus decks_command() {
  const auto decks = shipped_decks();
  if (decks.empty())
    throw DeckError(
        "no decks: neither share/shardmark/inputs of the installation nor inputs/ of the source "
        "tree "
        "is where the program expects it: install the program again, or give a deck by its path");
  std::size_t width = 0;
  for (const ShippedDeck& deck : decks) width = std::max(width, deck.name.size());
  std::string text;
  for (const ShippedDeck& deck : decks)
    text += fmt::format("{:<{}}  {}\n", deck.name, width, deck.summary);
  print_out(text);
  return ExitStatus::valid;
}

}  // namespace shardmark
