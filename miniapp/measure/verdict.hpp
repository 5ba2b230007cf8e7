// SPDX-License-Identifier: Apache-2.0
// VALID or INVALID: all checks are here; docs/valid.md explains them. Whether a run is official is
// decided in miniapp/rules/run_class.hpp.
#pragma once

#include <optional>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// What the driver observed that is not in the figures of a Result.
struct Observed {
  std::string
      memory_mismatch;  // of the lowest rank whose ledger differs from its plan; empty: none
  std::string values_mismatch;  // what the proof of the collectives found first
  std::string calls_mismatch, copies_mismatch, disk_mismatch;
  std::string excess;              // of the lowest rank whose system figure exceeds the allowance
  std::string inputs;              // of the lowest rank with other data or another program
  std::string clocks;              // of the lowest rank whose clocks disagree
  std::string self_check;          // what was wrong; empty: passed
  std::string injected;            // "SHARDMARK_FAULT=leak"
  std::optional<Check> reference;  // by the reference answers; empty: there are none for the deck
};

/// Fills `result.checks`.
void judge(const Deck& deck, const Program& program, const Observed& observed, Result& result);

}  // namespace shardmark
