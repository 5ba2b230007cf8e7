// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/knobs.hpp>
#include <miniapp/tools/advise/search.hpp>

namespace shardmark {
namespace {

// Lines of a readable length.
std::string wrapped(std::string text) {
  std::size_t line = 0, blank = std::string::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') blank = i;
    if (i - line > 98 && blank != std::string::npos && blank > line)
      text[blank] = '\n', line = blank + 1;
  }
  return text;
}

std::string table_row(const Candidate& c, const std::vector<std::string>& given) {
  return fmt::format("{:>5} {:<10} {:>6} {:>6} {:>9} {:>11} {:>10} {:>13} {:<18} {}\n", c.stage,
                     to_string(c.schedule), c.batch.micro, c.batch.accumulation,
                     c.recomputes ? "yes" : "no", four_digits(c.tokens_per_s), duration(c.step_s),
                     human_bytes(c.bytes[Tier::device]) + (c.tight ? " *" : "  "), c.limited_by,
                     extras(c, given));
}

std::string table_of(const Advice& a, std::size_t top) {
  std::string text = fmt::format(
      "{:>5} {:<10} {:>6} {:>6} {:>9} {:>11} {:>10} {:>11}   {:<18} {}\n", "stage", "schedule",
      "micro", "accum.", "recompute", "tokens/s", "step", "device", "limited by", "changed knobs");
  bool any_tight = false;
  for (std::size_t i = 0; i < std::min(top, a.candidates.size()); ++i) {
    text += table_row(a.candidates[i], a.given_beside(a.candidates[i]));
    any_tight = any_tight || a.candidates[i].tight;
  }
  if (any_tight)
    text +=
        fmt::format("* tight: less than {:.0f} % of a memory budget is left\n", tight_part * 100);
  return text;
}

// The keys that make no difference in rows of the table, each named once per stage and schedule.
std::string idle_keys(const std::vector<Candidate>& candidates, std::size_t top) {
  std::map<std::pair<int, Schedule>, std::vector<IdleKey>> idle;
  for (std::size_t i = 0; i < std::min(top, candidates.size()); ++i) {
    auto& keys = idle[{candidates[i].stage, candidates[i].schedule}];
    for (const IdleKey& k : candidates[i].without_effect) merge_idle(keys, k);
  }
  std::string text;
  for (const auto& [kind, keys] : idle) {
    std::vector<std::string> parts;
    for (const IdleKey& k : keys)
      parts.push_back(fmt::format("{} ({})", knob_named(k.key)->name, join(k.values, ", ")));
    if (!parts.empty())
      text += fmt::format("\nwithout effect here: at stage {} of {}: {}", kind.first,
                          to_string(kind.second), join(parts, ", "));
  }
  return text.empty() ? text : text + '\n';
}

std::string refused_lines(const std::vector<Candidate>& all) {
  std::map<int, std::pair<std::size_t, const Candidate*>> refused;
  for (const Candidate& c : all) {
    if (c.missing_bytes == 0) continue;
    auto& [count, leanest] = refused[c.stage];
    ++count;
    if (leanest == nullptr || c.missing_bytes < leanest->missing_bytes) leanest = &c;
  }
  std::string text;
  for (const auto& [stage, found] : refused)
    text += fmt::format("\n  stage {}: {} do not fit; the one that lacks least: {}", stage,
                        found.first, found.second->refusal);
  return text;
}

}  // namespace

std::string commands_text(const std::vector<std::string>& commands) {
  if (commands.empty()) return "";
  return "Check it with:\n  " + join(commands, "\n  ") + '\n';
}

std::string advice_text(const Advice& a, std::size_t top,
                        const std::vector<std::string>& commands) {
  return wrapped(verdict(a)) + "\n\n" + commands_text(commands) + '\n' + table_of(a, top) +
         idle_keys(a.candidates, top) +
         fmt::format("\n{} candidates, {} fit with plans that differ", a.considered,
                     a.candidates.size()) +
         refused_lines(a.refused) + '\n';
}

}  // namespace shardmark
