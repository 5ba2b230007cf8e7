// SPDX-License-Identifier: Apache-2.0
// VALID or INVALID, and official or not: every rule in one place. README, "What VALID means".
#pragma once

#include <core/plan/deck/deck.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// What the driver observed and cannot be read off the tables.
struct Observed {
  std::string memory_mismatch;  // of the first rank whose ledger differs from its plan; empty: none
  std::string calls_mismatch, copies_mismatch, disk_mismatch;
  std::string excess;         // of the first rank whose system figure exceeds the allowance
  std::string self_check;     // what was wrong; empty: passed
  bool deck_changed = false;  // by --set, or a fault or delay was injected
  bool traced = false;        // timed steps: by the deck's trace or wall_clock_breakdown
  std::string injected;       // "SHARDMARK_FAULT=leak"
};

/// Fills `result.checks` and `result.unofficial`.
void judge(const Deck& deck, const Program& program, const Observed& observed, Result& result);

}  // namespace shardmark
