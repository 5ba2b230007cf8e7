// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/printable.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/report/next_step.hpp>
#include <miniapp/rules/official_rules.hpp>

namespace shardmark {
namespace {

// What the run would have to be started with.
std::string towards_official(const RunClass& c) {
  if (c.settings.empty()) return "for an official figure remove what CLASS names";
  std::string sets;
  for (const std::string& setting : c.settings) sets += " --set " + setting;
  return fmt::format("for an official figure run the same command with{}{}", sets,
                     c.reasons.size() > c.cured ? ", and remove what else CLASS names" : "");
}

}  // namespace

std::string next_step(const Deck& deck, const Result& r, const std::string& out) {
  const std::string open = fmt::format("Next: open {}/{}", printable(out), page_file);
  if (!r.valid())
    return open + (r.checks_pass() ? "; the run was stopped, so start it again for a result"
                                   : "; docs/valid.md says what each failed check means and what "
                                     "to look at (\"Why was my run INVALID?\")");
  if (r.rows.empty() && !r.checkpoints.resumed_from.empty())
    return open + fmt::format(
                      "; nothing was left to do, because {} has all {} steps of this deck: raise "
                      "run.steps to train on, or give another checkpoint.dir to start again",
                      printable(r.checkpoints.resumed_from), deck.run.warmup + deck.run.steps);
  if (r.run_class.official())
    return open + fmt::format(
                      "; a ranked result is the median of {0} runs: run the same command {1} more "
                      "times, each with another --out, then pack all {0} with `shardmark submit "
                      "{2} DIR2 ...` (docs/run-rules.md)",
                      OfficialRules::runs, OfficialRules::runs - 1, printable(out));
  return open + fmt::format(
                    "; compare settings with `shardmark sweep {} --vary KEY=VALUE,VALUE`; "
                    "{}",
                    printable(deck.path), towards_official(r.run_class));
}

}  // namespace shardmark
