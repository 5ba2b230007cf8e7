// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/files/regular_file.hpp>
#include <io/keys/nearest.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;

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

// A name of a shipped deck has neither a folder nor a suffix; anything else is a path.
bool may_be_name(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && !text.ends_with(".json");
}

}  // namespace

std::string shipped_folder() {
  std::error_code none;
  const fs::path bin = fs::read_symlink("/proc/self/exe", none).parent_path();
  if (none) return "";
  for (const char* candidate : {"../share/shardmark/inputs", "../inputs"}) {
    const fs::path folder = (bin / candidate).lexically_normal();
    if (fs::is_directory(folder, none)) return folder.string();
  }
  return "";
}

std::vector<ShippedDeck> shipped_decks() {
  std::vector<ShippedDeck> decks;
  const std::string folder = shipped_folder();
  if (folder.empty()) return decks;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".json") continue;
    const std::string text =
        read_regular_file(file.string(), largest_deck, "install the program again");
    decks.push_back({file.stem().string(), file.string(), summary_of(text)});
  }
  std::sort(decks.begin(), decks.end(),
            [](const ShippedDeck& a, const ShippedDeck& b) { return a.name < b.name; });
  return decks;
}

FoundDeck find_deck(const std::string& text) {
  std::error_code none;
  if (!may_be_name(text) || fs::exists(text, none)) return {text};
  std::vector<std::string> names;
  for (const ShippedDeck& deck : shipped_decks()) {
    if (deck.name == text) return {deck.path, true};
    names.push_back(deck.name);
  }
  const std::string meant = nearest(text, names);
  throw DeckError(fmt::format(
      "{}: no such file, and no shipped deck has this name: {}`shardmark decks` lists them", text,
      meant.empty() ? "" : fmt::format("did you mean {}? ", meant)));
}

}  // namespace shardmark
