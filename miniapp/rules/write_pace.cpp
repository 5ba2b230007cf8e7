// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <miniapp/rules/write_pace.hpp>

namespace shardmark {

std::string describe_write_pace(ClassFacts facts, const RunClass& start,
                                const std::vector<double>& write_s) {
  if (!start.official() || write_s.empty()) return "";
  const double each_s =
      std::accumulate(write_s.begin(), write_s.end(), 0.0) / static_cast<double>(write_s.size());
  const std::int64_t writes = facts.deck.checkpoint.benchmark;
  facts.end.emplace().write_s.assign(static_cast<std::size_t>(writes), each_s);
  // A run that can become official has the shipped deck.
  const RunClass then = judge_class(facts, &facts.used);
  if (then.settings.empty()) return "";
  return fmt::format(
      "At the pace of the first {}, {:.3g} s each, the {} writes take {:.3g} s; an official figure "
      "needs {} s: --set {}",
      plural(static_cast<std::int64_t>(write_s.size()), "write"), each_s, writes,
      each_s * static_cast<double>(writes), OfficialRules::writing_s,
      join(then.settings, " --set "));
}

}  // namespace shardmark
