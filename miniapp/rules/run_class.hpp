// SPDX-License-Identifier: Apache-2.0
// Whether a run is official, or can still become it, with all reasons. The same function answers
// before the first step, at the end, and for a report that somebody hands in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/rules/division.hpp>

namespace shardmark {

/// What only the end of a run shows.
struct RunEnd {
  double timed_s = 0;
  bool stopped = false;                // before its last step
  std::vector<double> write_s;         // of the storage benchmark, each write
  bool cached = false;                 // the page cache may have served its reads
  std::int64_t node_memory_bytes = 0;  // the most of all nodes; 0: not known
};

/// Everything that decides the class of a run.
struct ClassFacts {
  Deck deck;
  bool traced = false;  // OutputOptions::traces_steps()
  UsedDeck used;        // the same deck as text
  // Of the plan; all 0 where there is none yet.
  int world = 0, ranks_per_node = 0;
  bool copies = false;                // between host and device
  std::int64_t checkpoint_bytes = 0;  // of states, of all ranks
  std::string fault;                  // "SHARDMARK_FAULT=leak"
  std::string resumed_from;           // a checkpoint; empty: a fresh start
  std::optional<RunEnd> end;          // empty: before the first step
};

/// The class of a run.
struct RunClass {
  Judged division;
  std::vector<std::string> reasons;  // against official
  std::vector<std::string> open;     // conditions that the end decides
  // Values for `--set`, "run.steps=320", that remove `cured` of the reasons.
  std::vector<std::string> settings;
  std::size_t cured = 0;

  bool official() const { return reasons.empty(); }
};

/// Judges a run. `shipped`: the shipped deck of that name; null: there is none. Pure.
RunClass judge_class(const ClassFacts& facts, const UsedDeck* shipped);

/// The same, with the shipped deck found by the deck's `name`. Throws DeckError if that file is
/// damaged.
RunClass class_of(const ClassFacts& facts);

/// The facts that follow from a deck and, if there is one, from its plan. `data` is the content of
/// the file that it trains on. Pure.
ClassFacts facts_of(const LoadedDeck& loaded, std::optional<FileIdentity> data,
                    const Program* program, int ranks_per_node);

/// The bytes of states in a checkpoint of a program, of all ranks. Pure.
std::int64_t checkpoint_bytes(const Program& program);

/// "can become official, division as-is, if the timed steps take 60 s" or "unofficial (…)": the
/// class before the first step.
std::string describe_start(const RunClass& run_class);

/// The seconds per step of a part of a run: "the warm-up", "the first 25 timed steps".
struct Pace {
  std::string of;
  double step_s = 0;
};

/// What is said while a run goes on: that the timed steps will be too few for an official figure at
/// this pace, and the `--set` with which they are not. Empty if they last long enough, or if
/// nothing that `start`, the class before the first step, names can be mended by `--set`. Pure.
std::string describe_pace(const RunClass& start, const RunSpec& run, const Pace& pace);

/// That the writes of the storage benchmark will be too few for an official figure at the pace of
/// the first ones, which took `write_s`, and the `--set` with which they are not. Empty if they
/// last long enough, or if something else, in `start`, the class before the first step, stands
/// against an official figure. Pure.
std::string describe_write_pace(ClassFacts facts, const RunClass& start,
                                const std::vector<double>& write_s);

}  // namespace shardmark
