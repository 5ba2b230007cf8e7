// SPDX-License-Identifier: Apache-2.0
// Checks a submission without running anything: plans are made again, figures are recomputed.
#pragma once

#include <string>
#include <vector>

#include <miniapp/submission/division.hpp>
#include <miniapp/submission/submission.hpp>

namespace shardmark {

/// What the verification of one run found.
struct VerifiedRun {
  std::string folder, name;
  std::vector<std::string> refusals;  // what does not add up; empty: verified
  Judged division;
  bool official = false;
  int ranks = 0;
  std::string fom_name;
  double fom = 0;
};

/// Verifies one run of a submission: the deck and its hash; the plan, its hash, its collectives and
/// its memory, planned again; the figure of merit, the losses, the step times and the rules of
/// VALID and of official, recomputed from losses.csv and the deck. Never throws for what a report
/// contains: everything that is wrong is a refusal.
VerifiedRun verify_run(const SubmittedRun& run);

/// Entries of the form that are empty.
std::vector<std::string> empty_entries(const Submission& submission);

}  // namespace shardmark
