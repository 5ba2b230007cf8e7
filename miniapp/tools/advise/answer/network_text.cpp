// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/palette.hpp>
#include <miniapp/tools/advise/answer/configuration.hpp>
#include <miniapp/tools/advise/answer/print.hpp>

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

/// Tokens per second on the axis, in a unit that keeps its figures short.
struct RateUnit {
  double size = 1;
  const char* name = "tokens/s";
};

RateUnit rate_unit(const NetworkTable& table) {
  double most = 0;
  for (const NetworkRow& r : table.rows)
    for (const auto& rate : r.tokens_per_s) most = std::max(most, rate.value_or(0));
  if (most >= 1e7) return {1e6, "million tokens/s"};
  if (most >= 1e4) return {1e3, "thousand tokens/s"};
  return {};
}

// "InfiniBand, 8 x 400 Gb/s" is broken behind the comma, other names before their second half.
std::string in_two_lines(std::string name) {
  if (const std::size_t comma = name.find(", "); comma != std::string::npos)
    return name.replace(comma, 2, "\n");
  if (const std::size_t blank = name.rfind(' ', name.size() / 2); blank != std::string::npos)
    name[blank] = '\n';
  return name;
}

// The bars of one network; a stage that does not run has none.
html::BarGroup bars_of(const NetworkRow& row, const RateUnit& unit) {
  html::BarGroup group{in_two_lines(row.network), {}};
  for (int stage = 0; stage < stage_count; ++stage) {
    html::Bar bar;
    if (const double rate = row.tokens_per_s[stage].value_or(0); rate > 0)
      bar.parts.push_back(
          {fmt::format("series{}", stage), fmt::format("stage {}", stage), rate / unit.size,
           fmt::format("{}, stage {}: {} tokens/s", row.network, stage, four_digits(rate))});
    group.bars.push_back(std::move(bar));
  }
  return group;
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

std::string network_picture(const AdviseCase& question, const NetworkTable& table) {
  const RateUnit unit = rate_unit(table);
  html::Chart chart{"tokens per second by network and stage", {}, {.unit = unit.name}, 300};
  for (const NetworkRow& row : table.rows) chart.bars.push_back(bars_of(row, unit));
  for (int stage = 0; stage < stage_count; ++stage)
    if (const Candidate& c = table.stages[stage]; !c.fits)
      chart.legend.push_back(
          {"", fmt::format("– stage {} {}", stage,
                           c.missing_bytes > 0 ? "does not fit" : "is refused")});
  return html::picture(
      fmt::format("{} on {} of {}: tokens per second by network and stage", table.deck.name,
                  plural(question.ranks, "rank"), question.machine->name),
      fmt::format("{} parameters, {}", count_words(table.parameters),
                  settings_line(table.deck, table.batch)),
      chart);
}

}  // namespace shardmark
