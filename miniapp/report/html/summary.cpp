// SPDX-License-Identifier: Apache-2.0
// The page of a run, and its top and bottom: verdict, checks, where the run ran, deck.
#include <set>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/html/sections.hpp>
#include <miniapp/report/report_provenance.hpp>

namespace shardmark::html {
namespace {

std::string what_ran(const Deck& deck, const Program& p, const Result& r) {
  std::set<std::string> hosts;
  for (const RankInfo& rank : r.ranks) hosts.insert(rank.host);
  std::string model =
      fmt::format("{}, {} parameters", to_string(deck.model.family), grouped(p.model.parameters));
  if (deck.model.layers > 0) model += ", " + plural(deck.model.layers, "layer");
  std::string text = fmt::format(
      "<p>{}. Schedule {}, ZeRO stage {}, {} on {}, {} reductions, {} memory. {} per step: {} per "
      "micro-batch × {} accumulation × {}. {} warm-up, {} timed steps.</p>\n",
      escape(model), to_string(p.schedule), p.stage, plural(p.world, "rank"),
      plural(static_cast<std::int64_t>(hosts.size()), "host"), to_string(p.reductions),
      to_string(p.memory_mode), plural(p.batch.global, "sample"), p.batch.micro,
      p.batch.accumulation, plural(p.mesh.data_parts(), "rank"), deck.run.warmup, deck.run.steps);
  const auto merit = parameter_tokens_per_s(p, r);
  if (r.fit)
    text += fmt::format(
        "<p>model.fit chose {}. Tokens per second compare only with runs of "
        "a model of this size; tokens per second times parameters{} compare with "
        "all.</p>\n",
        escape(describe(*r.fit)), merit ? fmt::format(", {:.4g},", *merit) : "");
  return text;
}

constexpr const char* shown_software[][2] = {
    {"shardmark", "ShardMark"},    {"kokkos", "Kokkos"},   {"execution_space", "execution space"},
    {"matmul", "matrix products"}, {"mpi", "MPI library"}, {"mpi_standard", "MPI standard"},
    {"compiler", "compiler"},      {"system", "system"}};

Table software(const Result& r) {
  Table table{"Software", {"", "version"}, {}, 2};
  for (const auto& [key, name] : shown_software)
    if (const auto it = r.versions.find(key); it != r.versions.end())
      table.rows.push_back({name, escape(it->second)});
  return table;
}

Table ranks(const Result& r) {
  Table table{
      "Ranks",
      {"ranks", "host", "processor", "cores", "NUMA nodes", "kernel threads", "matmul threads"},
      {},
      5};
  const auto groups = rank_groups(r.ranks);
  for (std::size_t i = 0; i < groups.size() && i < most_rank_rows; ++i) {
    const RankInfo& of = groups[i].of;
    table.rows.push_back({format_numbers(groups[i].ranks), escape(of.host), escape(of.processor),
                          escape(of.cores), escape(of.numa_nodes),
                          std::to_string(of.kernel_threads), std::to_string(of.matmul_threads)});
  }
  if (groups.size() > most_rank_rows)
    table.caption += fmt::format(" (the first {} of {} rows; report.json has every rank)",
                                 most_rank_rows, groups.size());
  return table;
}

}  // namespace

std::string verdict_section(const Deck& deck, const Program& p, const Result& r) {
  std::string text =
      fmt::format("<header><h1>{}</h1>\n<div class=\"verdict\">", escape(printable(deck.name)));
  text += r.valid() ? "<span class=\"badge good\">VALID</span>"
                    : "<span class=\"badge bad\">INVALID</span>";
  for (const FigureOfMerit& merit : figures_of_merit(r))
    text += fmt::format("<span class=\"fom\">{:.6g}</span><span>{}{}{}</span>", merit.value,
                        merit.unit, merit.of.empty() ? "" : " ", merit.of);
  text += fmt::format("<span class=\"soft\">{}</span></div>\n",
                      r.run_class.official() ? "official" : "unofficial");
  if (!r.valid()) text += fmt::format("<p class=\"bad\">{}</p>\n", escape(r.invalid_reasons()));
  if (!r.run_class.official())
    text += fmt::format("<p class=\"soft\">Unofficial: {}</p>\n",
                        escape(join(r.run_class.reasons, "; ")));
  text += what_ran(deck, p, r);
  for (const std::string& w : r.warnings)
    text += fmt::format("<p class=\"warning\">Warning: {}</p>\n", escape(w));
  return text + "</header>\n";
}

std::string checks_section(const Result& r) {
  Table table{"", {"check", "", "finding"}, {}, 3};
  for (const Check& c : r.checks) {
    const char* state = c.state == Check::State::pass ? "<span class=\"good\">pass</span>"
                        : c.state == Check::State::fail
                            ? "<strong class=\"bad\">FAIL</strong>"
                            : "<span class=\"soft\">not applicable</span>";
    table.rows.push_back({escape(c.name), state, escape(c.detail)});
  }
  return "<h2>Checks</h2>\n" + to_html(table);
}

std::string provenance_section(const Result& r) {
  std::string text = "<h2>Where it ran</h2>\n" + to_html(ranks(r)) + to_html(software(r));
  Table environment{"Environment", {"variable", "value"}, {}, 2};
  for (const std::string& line : environment_lines(r)) {
    const auto equals = line.find('=');
    environment.rows.push_back({escape(line.substr(0, equals)), escape(line.substr(equals + 1))});
  }
  if (!environment.rows.empty()) text += to_html(environment);
  return text;
}

std::string deck_section(const Deck& deck, const Result& r) {
  Table table{"", {"", ""}, {}, 2};
  table.rows = {{"deck", escape(printable(deck.path))},
                {"deck hash", "<code>" + escape(r.deck_hash) + "</code>"},
                {"plan hash", "<code>" + escape(r.plan_hash) + "</code>"}};
  for (const State state : all_values<State>)
    table.rows.push_back({fmt::format("state hash, {}", to_string(state)),
                          fmt::format("<code>{:016x}</code>", r.hashes.of[state])});
  return "<h2>Deck and hashes</h2>\n" + to_html(table) + "<pre>" + escape(r.deck_text) + "</pre>\n";
}

}  // namespace shardmark::html

std::string shardmark::report_html(const Deck& deck, const Program& p, const Result& r) {
  using namespace html;
  std::string page = verdict_section(deck, p, r);
  page += checks_section(r);
  page += loss_section(deck, r);
  page += checkpoints_section(r);
  page += time_section(p, r);
  page += memory_section(p, r);
  page += collectives_section(deck, p, r);
  page += energy_section(r);
  page += provenance_section(r);
  page += deck_section(deck, r);
  return document(
      fmt::format("{}: ShardMark {}", printable(deck.name), r.valid() ? "VALID" : "INVALID"), page);
}
