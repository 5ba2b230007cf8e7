// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/picture.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/subject.hpp>

namespace shardmark {
namespace {

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
