// SPDX-License-Identifier: Apache-2.0
// Checks a submission without running anything: plans are made again, figures are recomputed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/rules/division.hpp>
#include <miniapp/tools/submission/repetitions.hpp>
#include <miniapp/tools/submission/submission.hpp>

namespace shardmark {

/// What the verification of one run found.
struct VerifiedRun {
  std::string folder, name;
  std::vector<std::string> refusals;  // what does not add up; empty: verified
  Judged division;
  bool official = false;
  std::vector<std::string> reasons;  // against official
  UsedDeck used;                     // the deck of the report
  int ranks = 0;
  std::string fom_name;
  double fom = 0;
  std::optional<double> read_gib_per_s;  // of a storage deck, beside its figure of merit
  RunMark mark;
  std::string deck_hash, processor;
  std::string date;  // of its end, "2026-11-23"
  int nodes = 0;
  std::int64_t parameters = 0, tokens_per_step = 0;
};

/// Verifies one run of a submission: the deck and its hash; the plan, its hash, its collectives and
/// its memory, planned again; the losses and every time and speed that others determine or bound;
/// the figure of merit and the rules of VALID and of official, recomputed from losses.csv and the
/// deck. Never throws for what a report
/// contains: everything that is wrong is a refusal.
VerifiedRun verify_run(const SubmittedRun& run);

/// Verifies all runs of a submission, one by one and against each other (compare_runs).
std::vector<VerifiedRun> verify_submission(const Submission& submission);

/// Entries of the form that are empty.
std::vector<std::string> empty_entries(const Submission& submission);

}  // namespace shardmark
