// SPDX-License-Identifier: Apache-2.0
// Checkpoints (what training read and wrote, and the repetitions of the storage benchmark), and the
// energy of the timed steps, by source and by phase.
#include <algorithm>

#include <fmt/core.h>

#include <core/percentile.hpp>
#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/report/html/sections.hpp>

namespace shardmark::html {

namespace {

struct Transfer {
  const char *name, *css;
  const std::vector<double>& seconds;
};

// A rate is lowest where the time is longest.
std::vector<std::string> repetitions_row(const Transfer& d, std::int64_t bytes) {
  const auto [shortest, longest] = std::ranges::minmax_element(d.seconds);
  const double middle = median(d.seconds);
  std::vector<std::string> row{d.name, std::to_string(d.seconds.size())};
  for (const double s : {*longest, middle, *shortest})
    row.push_back(fmt::format("{:.3f}", gib_per_s(bytes, s)));
  row.push_back(fmt::format("{:.3f}", mean_gib_per_s(bytes, d.seconds)));
  for (const double s : {*shortest, middle, *longest}) row.push_back(fmt::format("{:.3f}", s));
  return row;
}

Chart repetitions_chart(const std::vector<Transfer>& transfers, std::int64_t bytes) {
  Chart chart{"GiB/s of each repetition", {.unit = "repetition"}, {.unit = "GiB/s"}};
  std::size_t most = 0;
  for (const Transfer& d : transfers) most = std::max(most, d.seconds.size());
  for (std::size_t i = 0; i < most; ++i) {
    BarGroup& group = chart.bars.emplace_back(BarGroup{std::to_string(i + 1), {}});
    for (const Transfer& d : transfers) {
      Bar& bar = group.bars.emplace_back();
      if (i >= d.seconds.size()) continue;
      const double rate = gib_per_s(bytes, d.seconds[i]);
      bar.parts = {
          {d.css, d.name, rate,
           fmt::format("{} {}: {:.3f} GiB/s, {}", d.name, i + 1, rate, duration(d.seconds[i]))}};
    }
  }
  for (const Transfer& d : transfers)
    chart.levels.push_back({gib_per_s(bytes, median(d.seconds)), fmt::format("{} ideal", d.css),
                            fmt::format("{}, median", d.name)});
  return chart;
}

std::string repetitions(const CheckpointFigures& c) {
  std::vector<Transfer> transfers;
  for (const Transfer& d :
       {Transfer{"write", "series0", c.timed_write_s}, Transfer{"read", "series2", c.timed_read_s}})
    if (!d.seconds.empty()) transfers.push_back(d);
  if (transfers.empty()) return {};
  Table table{fmt::format("Each moves {} of states; the time of the slowest rank",
                          human_bytes(c.timed_bytes)),
              {"", "times", "GiB/s lowest", "median", "highest", "of all", "s shortest", "median",
               "longest"},
              {},
              1,
              0,
              "dense"};
  for (const Transfer& d : transfers) table.rows.push_back(repetitions_row(d, c.timed_bytes));
  return to_html(repetitions_chart(transfers, c.timed_bytes)) + to_html(table) +
         fmt::format(
             "<p>{}The page cache was {} before each read; each rank read what the next one "
             "wrote.</p>\n",
             c.file_system.empty() ? "" : "File system: " + escape(c.file_system) + ". ",
             c.cached ? "not dropped" : "dropped");
}

}  // namespace

std::string checkpoints_section(const Result& r) {
  const CheckpointFigures& c = r.checkpoints;
  std::string text;
  if (!c.resumed_from.empty())
    text += fmt::format("<p>Read {} in {} ({:.2f} GiB/s), {}: {}</p>\n", human_bytes(c.read_bytes),
                        duration(c.read_s), gib_per_s(c.read_bytes, c.read_s),
                        plural(c.files_opened, "file"), escape(c.resumed_from));
  if (c.written > 0)
    text += fmt::format("<p>Wrote {} in {}, {} ({:.2f} GiB/s); training waited for {}.</p>\n",
                        human_bytes(c.written_bytes), plural(c.written, "checkpoint"),
                        duration(c.write_s), gib_per_s(c.written_bytes, c.write_s),
                        duration(c.blocked_s));
  text += repetitions(c);
  return text.empty() ? text : "<h2>Checkpoints</h2>\n" + text;
}

namespace {

std::string cell(const std::optional<PhaseEnergy>& energy) {
  return energy ? fmt::format("{:.4g} ± {:.2g} %", energy->joules, energy->error * 100) : "–";
}

double joules_of(const EnergyFigure& f, const std::string& source) {
  double joules = 0;
  for (const NodeEnergy& node : f.nodes)
    for (const CounterEnergy& c : node.counted())
      if (c.source == source) joules += c.joules;
  return joules;
}

}  // namespace

std::string energy_section(const Result& r) {
  const EnergyFigure& f = r.energy;
  const auto sources = f.sources();
  if (sources.empty()) return {};
  Table table{"Joules of all nodes in the timed steps", {"counters", "in all"}, {}, 1};
  for (const EnergyPhase phase : all_values<EnergyPhase>) table.head.emplace_back(to_string(phase));
  const auto row = [&](const std::string& source, const std::string& name,
                       const std::string& joules) {
    std::vector<std::string> cells{escape(name), joules};
    for (const EnergyPhase phase : all_values<EnergyPhase>)
      cells.push_back(cell(f.phase(phase, source)));
    table.rows.push_back(std::move(cells));
  };
  for (const std::string& source : sources)
    row(source, source, fmt::format("{:.4g}", joules_of(f, source)));
  if (const auto joules = f.joules()) row("", "in all", fmt::format("{:.4g}", *joules));
  std::string text = "<h2>Energy</h2>\n" + to_html(table);
  for (const std::string& sentence : f.unresolved())
    text += fmt::format("<p class=\"soft\">{}.</p>\n", escape(sentence));
  return text;
}

}  // namespace shardmark::html
