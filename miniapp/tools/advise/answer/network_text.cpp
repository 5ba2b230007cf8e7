// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/subject.hpp>

namespace shardmark {
namespace {

constexpr const char *cell_no_memory = "no memory", *cell_refused = "refused";

bool lacks_memory(const Candidate& c) {
  return !c.fits && c.missing_bytes > 0;
}

// Stage 3 beside the lowest stage that runs.
std::string against_lowest(const NetworkRow& row, int lowest) {
  if (!row.tokens_per_s[3] || !row.tokens_per_s[lowest] || lowest == 3) return "";
  constexpr double alike = 0.02;
  const double ratio = *row.tokens_per_s[3] / *row.tokens_per_s[lowest];
  if (std::abs(ratio - 1) <= alike) return "costs nothing";
  return ratio > 1 ? fmt::format("{:.0f} % faster", 100 * (ratio - 1))
                   : fmt::format("{:.0f} % slower", 100 * (1 - ratio));
}

}  // namespace

std::string network_text(const AdviseCase& question, const NetworkTable& table) {
  int lowest = 0;
  while (lowest < 3 && !table.rows.front().tokens_per_s[lowest]) ++lowest;
  std::string text = fmt::format(
      "\nthe deck as it is, at each stage and with other networks: {},\n{}, on {} of {}\n"
      "{:<28} {:>12} {:>12} {:>12} {:>12}   {}\n",
      model_line(table.deck, table.parameters), settings_line(table.deck, table.batch),
      plural(question.ranks, "rank"), question.machine->name, "tokens/s", "stage 0", "stage 1",
      "stage 2", "stage 3",
      lowest < 3 ? fmt::format("stage 3 against stage {}", lowest) : std::string());
  for (const NetworkRow& r : table.rows) {
    text += fmt::format("{:<28}", r.network);
    for (int stage = 0; stage < stage_count; ++stage)
      text += r.tokens_per_s[stage]
                  ? fmt::format(" {:>12}", four_digits(*r.tokens_per_s[stage]))
                  : fmt::format(" {:>12}",
                                lacks_memory(table.stages[stage]) ? cell_no_memory : cell_refused);
    text += "   " + against_lowest(r, lowest) + '\n';
  }
  if (question.ranks <= question.ranks_per_node)
    text += "All ranks share a node, so they do not use a network between nodes.\n";
  for (int stage = 0; stage < stage_count; ++stage)
    if (!table.stages[stage].fits)
      text += lacks_memory(table.stages[stage])
                  ? fmt::format("stage {}: does not fit: {}\n", stage, table.stages[stage].refusal)
                  : fmt::format("stage {}: is refused: {}\n", stage,
                                refusal_clause(table.deck, table.stages[stage].refusal));
  return text;
}

}  // namespace shardmark
