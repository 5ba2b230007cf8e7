// SPDX-License-Identifier: Apache-2.0
// `shardmark deck check`: what reading a sound deck noticed, in words. A deck that is not sound has
// thrown before this is reached.
#pragma once

#include <optional>

#include <io/deck/deck_reader.hpp>

namespace shardmark {

/// The deck's findings, grouped by kind, each in the deck's order. With `ranks` the batch triple is
/// completed for that many. Throws DeckError if the batch sizes do not fit `ranks`.
std::vector<Finding> check_deck(const LoadedDeck& loaded, std::optional<int> ranks);

/// The findings as text, one line each under a heading a kind, newline-terminated. A deck with
/// none: one line that says so.
std::string format_findings(const LoadedDeck& loaded, const std::vector<Finding>& findings);

}  // namespace shardmark
