// SPDX-License-Identifier: Apache-2.0
// The findings that `shardmark deck check` prints for a sound deck. A deck that is not sound has
// caused an exception before.
#pragma once

#include <optional>

#include <io/deck/deck_reader.hpp>

namespace shardmark {

/// Returns the deck's findings, grouped by kind, each group in the deck's order. If `ranks` is
/// given, the batch triple is completed for that number of ranks. Throws DeckError if the batch
/// sizes do not fit `ranks`.
std::vector<Finding> check_deck(const LoadedDeck& loaded, std::optional<int> ranks);

/// Returns one line "note: …" for each assumption of a deck, for the head of what a command prints.
std::string note_lines(const Deck& deck);

/// Returns the findings as text: one heading per kind, one line per finding, ending in a newline.
/// For a deck without findings it is one line that says so.
std::string format_findings(const LoadedDeck& loaded, const std::vector<Finding>& findings);

}  // namespace shardmark
