// SPDX-License-Identifier: Apache-2.0
// Makes the plan of a reported run again, from its report alone.
#pragma once

#include <string>

#include <core/plan/plan.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

/// The deck of a reported run, and the program of its rank 0.
struct Replanned {
  LoadedDeck loaded;
  Profile profile;  // what the plan was made for, besides deck and ranks
  Program program;
  std::string text;  // the program as `plan` prints it, whose hash is the report's plan_hash
};

/// Makes the plan of the deck, ranks and profile that a report contains. Throws ReportError if the
/// report lacks something, and what `read_deck` and `build_legal_program` throw.
Replanned replan(const ReportReader& report);

}  // namespace shardmark
