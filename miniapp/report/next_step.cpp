// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/report/next_step.hpp>

namespace shardmark {
namespace {

// How many steps take the required time, a tenth longer because steps vary, in two digits.
std::int64_t official_steps(const Deck& deck, const Result& r) {
  const auto least = static_cast<double>(OfficialRules::steps);
  if (deck.run.steps <= 0 || !(r.timed_s > 0)) return OfficialRules::steps;
  const double needed = 1.1 * OfficialRules::timed_s / r.timed_s * double(deck.run.steps);
  if (needed <= least) return OfficialRules::steps;
  const double unit = std::pow(10, std::floor(std::log10(std::min(needed, 1e15))) - 1);
  return static_cast<std::int64_t>(std::ceil(std::min(needed, 1e15) / unit) * unit);
}

// The rules that the deck itself can meet, each as "set KEY to VALUE"; a run may break others too.
std::string towards_official(const Deck& deck, const Result& r) {
  std::vector<std::string> settings;
  std::size_t broken = 0;
  const auto rule = [&](bool breaks) { broken += breaks ? 1 : 0; };
  if (deck.checkpoint.benchmark > 0) {
    rule(deck.checkpoint.benchmark < OfficialRules::checkpoints);
    if (broken > 0)
      settings.push_back(fmt::format("checkpoint.benchmark to {}", OfficialRules::checkpoints));
  } else {
    rule(deck.run.steps < OfficialRules::steps);
    rule(r.timed_s < OfficialRules::timed_s);
    if (broken > 0)
      settings.push_back(fmt::format("run.steps to {} or more", official_steps(deck, r)));
    rule(deck.run.warmup < OfficialRules::warmup);
    if (deck.run.warmup < OfficialRules::warmup)
      settings.push_back(fmt::format("run.warmup to {}", OfficialRules::warmup));
  }
  if (settings.empty()) return "for an official figure remove what CLASS names";
  return fmt::format("for an official figure set {} in the deck{}", join(settings, " and "),
                     r.unofficial.size() > broken ? ", and remove what else CLASS names" : "");
}

}  // namespace

std::string next_step(const Deck& deck, const Result& r, const std::string& out) {
  const std::string open = fmt::format("Next: open {}/{}", printable(out), page_file);
  if (!r.valid())
    return open + (r.checks_pass() ? "; the run was stopped, so start it again for a result"
                                   : "; docs/valid.md says what each failed check means and what "
                                     "to look at (\"Why was my run INVALID?\")");
  if (r.unofficial.empty())
    return open + fmt::format(
                      "; compare the FOM with that of other machines for the same "
                      "deck_hash in {}",
                      report_file);
  return open + fmt::format(
                    "; compare settings with `shardmark sweep {} --vary KEY=VALUE,VALUE`; "
                    "{}",
                    printable(deck.path), towards_official(deck, r));
}

}  // namespace shardmark
