// SPDX-License-Identifier: Apache-2.0
// VALID or INVALID, and official or not. All rules are here; docs/valid.md explains them.
#pragma once

#include <optional>
#include <string>

#include <core/plan/deck/deck.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark {

/// The least that an official figure needs; docs/valid.md lists all requirements.
struct OfficialRules {
  static constexpr int warmup = 3, steps = 20;  // of training
  static constexpr int timed_s = 60;            // seconds
  static constexpr int checkpoints = 10;        // writes and reads of the storage benchmark
};

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
  bool deck_changed = false;       // by --set
  bool traced = false;             // the deck's trace or wall_clock_breakdown traces timed steps
  std::string injected;            // "SHARDMARK_FAULT=leak"
  std::optional<Check> reference;  // by the reference answers; empty: there are none for the deck
};

/// Fills `result.checks` and `result.unofficial`.
void judge(const Deck& deck, const Program& program, const Observed& observed, Result& result);

}  // namespace shardmark
