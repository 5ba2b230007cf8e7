// SPDX-License-Identifier: Apache-2.0
// One table of several submissions: medians of repetitions, best first among those that did the
// same work.
#pragma once

#include <algorithm>
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include <miniapp/tools/submission/verify.hpp>

namespace shardmark {

/// One verified run with the words of its submission's form.
struct Ranked {
  std::string organisation, system, processor, file;
  VerifiedRun run;
};

/// What was run. Only entries with the same work are ranked against each other; that they have the
/// same deck follows from its name, as they are official only under the division as-is.
struct RankedWork {
  std::string deck, figure;  // "llama-1b", "tokens_per_s"
  Division division = Division::as_is;
  int ranks = 0;
  std::int64_t parameters = 0, tokens_per_step = 0;
  auto operator<=>(const RankedWork&) const = default;
};

/// The repetitions of one archive: runs of one deck on as many ranks, all official or none. Decks
/// are one if they differ in nothing but what any run may change (same_deck).
struct RankedEntry {
  RankedWork work;
  std::string organisation, system, processor, file, date;
  std::vector<std::string> deck_hashes;
  int nodes = 0;
  bool official = false;
  std::vector<std::string> reasons;  // of its runs, against official
  std::vector<double> values;        // figures of merit, ascending
  std::vector<double> reads;         // GiB/s of storage decks, ascending; empty for others
  std::size_t place = 0;             // among those of the same work; 0: not ranked

  double median() const;
  /// The median rate of reads, or nothing for a deck that reads none.
  std::optional<double> median_read() const;
  double per_rank() const { return median() / std::max(1, work.ranks); }
  /// "unofficial", "2 of 5 runs": why it is not ranked; empty if it is.
  std::string why_not() const;
};

/// Entries by work, the ranked ones of each work first and best first.
struct Ranking {
  std::vector<RankedEntry> ranked, unranked;
};

/// Runs with refusals are left out by the caller. Pure.
Ranking rank(const std::vector<Ranked>& runs);

/// "tokens/s", "GiB/s written": the unit of a figure of merit.
std::string unit_of(const std::string& figure);
/// "1.24 billion".
std::string shown_parameters(std::int64_t parameters);
/// "gpt-tiny-z3, as-is, 2 ranks": the work in words, and its size in words.
std::string describe(const RankedWork& work);
std::string describe_size(const RankedWork& work);

/// The table as text for people, as CSV, and as one HTML page without scripts or other files.
std::string ranking_text(const Ranking& ranking);
std::string ranking_csv(const Ranking& ranking);
std::string ranking_html(const Ranking& ranking);

}  // namespace shardmark
