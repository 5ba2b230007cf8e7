// SPDX-License-Identifier: Apache-2.0
// One table of several submissions, best figure of merit first.
#pragma once

#include <string>
#include <vector>

#include <miniapp/submission/verify.hpp>

namespace shardmark {

/// One verified run with the words of its submission's form.
struct Ranked {
  std::string organisation, system, processor, file;
  VerifiedRun run;
};

/// Sorts by deck, figure, division, official before unofficial, then by falling figure of merit.
/// Runs with refusals are left out by the caller.
void rank(std::vector<Ranked>& runs);

/// The table as text for people, as CSV, and as one HTML page without scripts or other files.
std::string ranking_text(const std::vector<Ranked>& runs);
std::string ranking_csv(const std::vector<Ranked>& runs);
std::string ranking_html(const std::vector<Ranked>& runs);

}  // namespace shardmark
