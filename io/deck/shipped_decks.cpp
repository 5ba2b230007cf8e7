// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <core/error.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t largest_deck = 1 << 20;

// The sentence with which the comment at the top of a deck begins.
std::string summary_of(const std::string& text) {
  std::string comment;
  for (std::size_t at = 0; text.compare(at, 2, "//") == 0;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    comment += text.substr(at + 2, end - at - 2);
    at = std::min(end + 1, text.size());
  }
  const std::size_t first = comment.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  const std::size_t stop = comment.find(". ", first);
  const std::size_t end = stop == std::string::npos ? comment.find_last_not_of(". ") + 1 : stop;
  return comment.substr(first, end - first);
}

const ShippedKind decks_kind{"", "deck", "`shardmark decks` lists them"};

}  // namespace

std::vector<ShippedDeck> shipped_decks() {
  std::vector<ShippedDeck> decks;
  for (const std::string& path : shipped_files(decks_kind)) {
    const std::string text = read_regular_file(path, largest_deck, "install the program again");
    decks.push_back({std::filesystem::path(path).stem().string(), path, summary_of(text)});
  }
  return decks;
}

std::vector<ShippedDeck> required_decks() {
  std::vector<ShippedDeck> decks = shipped_decks();
  if (decks.empty())
    throw DeckError(
        "no decks: neither share/shardmark/inputs of the installation nor inputs/ of the source "
        "tree is where the program expects it: install the program again, or give a deck by its "
        "path");
  return decks;
}

FoundFile find_deck(const std::string& text) {
  return find_shipped(text, decks_kind);
}

}  // namespace shardmark
