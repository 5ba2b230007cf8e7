// SPDX-License-Identifier: Apache-2.0
// The middle of the page: memory, collectives, time and loss, each with its drawing.
#include <fmt/core.h>

#include <core/plan/interpret/node_volume.hpp>
#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/sections.hpp>

namespace shardmark::html {
namespace {

// A measured figure, highlighted if it differs from the predicted one.
std::string against(std::int64_t predicted, std::int64_t measured) {
  return predicted == measured ? grouped(measured)
                               : "<strong class=\"bad\">" + grouped(measured) + "</strong>";
}

void add_tier(const Program& p, const TierResult& tier, std::string_view name, Table& table) {
  const bool pooled = p.memory_mode == MemoryMode::pooled;
  const auto row = [&](std::string_view what, std::int64_t predicted, std::string measured,
                       std::string note) {
    table.rows.push_back({std::string(name), std::string(what), grouped(predicted),
                          std::move(measured), human_bytes(predicted), std::move(note)});
  };
  const auto seen = [&](std::int64_t predicted, std::int64_t measured) {
    return pooled ? std::string("–") : against(predicted, measured);
  };
  for (const Category c : all_values<Category>)
    if (tier.predicted[c] > 0 || tier.measured[c] > 0)
      row(to_string(c), tier.predicted[c], seen(tier.predicted[c], tier.measured[c]), "");
  row("live peak", tier.live_peak, seen(tier.live_peak, tier.measured_peak),
      "at " + escape(tier.at));
  if (pooled)
    row("arena", tier.predicted_peak, against(tier.predicted_peak, tier.measured_peak),
        "allocated once");
  row("budget", tier.budget, "", escape(tier.budget_source));
}

// What was copied between tiers; empty if nothing was.
std::string link_table(const Result& r) {
  if (!r.copies()) return {};
  Table table{
      "Rank 0: copies of the whole run; bytes and times per timed step",
      {"direction", "copies", "predicted", "bytes", "bytes/step", "ms", "GB/s", "exposed ms"},
      {},
      1};
  for (const Direction d : all_values<Direction>) {
    const LinkResult& l = r.link[d];
    if (l.predicted.copies + l.measured.copies == 0) continue;
    table.rows.push_back({std::string(to_string(d)), against(l.predicted.copies, l.measured.copies),
                          grouped(l.predicted.copies), against(l.predicted.bytes, l.measured.bytes),
                          grouped(static_cast<std::int64_t>(l.bytes_per_step)),
                          fmt::format("{:.3f}", l.busy_s * 1e3),
                          fmt::format("{:.2f}", l.gb_per_s()),
                          fmt::format("{:.3f}", l.exposed_s * 1e3)});
  }
  return fmt::format("<h2>Host link{}</h2>\n<p>{}{}</p>\n", r.disk ? " and disk" : "",
                     r.emulated_link_gb_per_s ? fmt::format("Emulated: {} GB/s in each direction.",
                                                            *r.emulated_link_gb_per_s)
                                              : "As fast as this machine copies.",
                     r.disk ? " " + describe(*r.disk) : "") +
         to_html(table);
}

// Says which step the drawing above shows, or why there is none.
std::string traced(const Result& r, std::string_view more) {
  if (r.trace.events.empty())
    return "<p class=\"soft\">No step was traced, so nothing is drawn here. The last warm-up step "
           "is drawn if there is one (run.warmup), because tracing would disturb a timed "
           "step.</p>\n";
  const auto step = static_cast<std::size_t>(r.trace.step);
  const bool skipped = step < r.rows.size() && r.rows[step].skipped;
  return fmt::format("<p class=\"soft\">Rank 0 in step {}, the last warm-up step{}. {}</p>\n",
                     r.trace.step,
                     skipped ? ", whose gradients overflowed: its update was skipped" : "", more);
}

}  // namespace

std::string memory_section(const Program& p, const Result& r) {
  Table table{"Bytes of rank 0; each row has its own peak",
              {"tier", "category", "predicted", "measured", "rounded", ""},
              {},
              2,
              1};
  for (const Tier t : all_values<Tier>)
    if (r.tiers[t].predicted_peak != 0 || r.tiers[t].measured_peak != 0)
      add_tier(p, r.tiers[t], to_string(t), table);
  const bool pooled = p.memory_mode == MemoryMode::pooled;
  std::string charts;
  for (const Tier t : memory_tiers)
    if (const std::string chart = to_html(memory_chart(p, r, t)); !chart.empty())
      charts += titled(fmt::format("The {}'s memory during one step", to_string(t)), "", chart);
  return "<h2>Memory</h2>\n" + charts +
         traced(r,
                pooled
                    ? "Colours show the plan's prediction. The line shows what the executor held "
                      "in its arena after each event. Memory is pooled, so the ledger, "
                      "which counts allocations, sees only the arena (dashed)."
                    : "Colours show the plan's prediction. The line shows what the ledger "
                      "counted. Memory is strict, so every buffer is an allocation of its "
                      "own.") +
         to_html(table) + fmt::format("<p>Resident: {}.</p>\n", describe_resident(r)) +
         (r.device ? "<p>" + describe(*r.device, r.allowance) + "</p>\n" : "");
}

std::string collectives_section(const Deck& deck, const Program& p, const Result& r) {
  Table table{
      fmt::format("Rank 0, whole run; {:.3f} elements per parameter and step (an all_reduce "
                  "counts twice{})",
                  volume_per_parameter(p, steady_volume(p)), volume_note(p)),
      {"collective", "calls", "predicted", "bytes", "p50 ms", "p99 ms", "late ms", "bus GB/s"},
      {},
      1};
  for (const auto& [key, c] : r.collectives)
    table.rows.push_back(
        {collective_name(p, key), against(c.predicted.calls, c.measured.calls),
         grouped(c.predicted.calls), grouped(c.measured.bytes),
         fmt::format("{:.3f}", c.p50_s * 1e3), fmt::format("{:.3f}", c.p99_s * 1e3),
         fmt::format("{:.3f}", c.late_s * 1e3), fmt::format("{:.2f}", c.bus_gb_s)});
  const auto nodes = volume_between_nodes(p, deck, r.profile.ranks_per_node);
  const std::string sample = describe_sample(r);
  return "<h2>Collectives</h2>\n" +
         (table.rows.empty() ? std::string("<p>None.</p>\n") : to_html(table)) +
         (sample.empty() ? "" : "<p>The " + sample + ".</p>\n") +
         (nodes ? "<p>" + escape(describe(*nodes, p)) + ".</p>\n" : "") + link_table(r);
}

namespace {

std::string prediction_table(const Result& r) {
  if (!r.prediction) return {};
  Table table{fmt::format("Predicted on {}", escape(r.prediction->standing)),
              {"", "predicted ms", "measured ms", "error"},
              {}};
  for (const PredictedTime& t : predicted_times(r))
    table.rows.push_back({std::string(t.name), fmt::format("{:.2f}", t.predicted_s * 1e3),
                          fmt::format("{:.2f}", t.measured_s * 1e3),
                          t.error() ? relation(t.predicted_s, t.measured_s) : std::string("–")});
  std::string text = to_html(table);
  const MeasuredUse use = measured_use(r);
  if (use.mfu && use.hfu)
    text += fmt::format("<p>MFU {:.1f} %, HFU {:.1f} % of the peak that the machine file gives. ",
                        *use.mfu * 100, *use.hfu * 100);
  else
    text += "<p>";
  text += fmt::format("The step is limited by {}.</p>\n", r.prediction->point.limited_by());
  if (const std::string cores = cores_of_prediction(r); !cores.empty())
    text += fmt::format("<p>{}.</p>\n", escape(cores));
  for (const std::string& sentence : r.prediction->point.extrapolates)
    text += fmt::format("<p>It extrapolates {}.</p>\n", escape(sentence));
  return text;
}

}  // namespace

std::string time_section(const Program& p, const Result& r) {
  const TimeResult& t = r.times;
  Table table{"Per timed step, rank 0", {"", "ms", ""}, {}, 1, 1};
  const auto row = [&](const char* what, double seconds, const char* note) {
    table.rows.push_back({what, fmt::format("{:.2f}", seconds * 1e3), note});
  };
  row("forward", t.forward, "");
  row("backward", t.backward, "");
  row("optimizer", t.optimizer, "norm, update, gathering updated parameters");
  row("copies", t.copies, "the plan's copies, in any of these three");
  row("matrix products", t.matmul, "in any of these three");
  row("exposed communication", t.exposed, "waiting for collectives, or making them progress");
  row("hidden communication", t.hidden, "collectives in flight while the rank computed");
  row("step p50", r.step_p50_s, "of the slowest rank");
  row("step p99", r.step_p99_s, "");
  std::string text = "<h2>Time</h2>\n" + to_html(lanes_chart(p, r.trace)) +
                     traced(r,
                            "Point at a span for its name. Kernels that only move or convert "
                            "data are drawn as copies.") +
                     to_html(table);
  if (r.ranks.size() > 1)
    text += fmt::format("<p>Most time without waiting: rank {} on {}, {} per step.</p>\n",
                        r.slowest_rank, escape(r.ranks[r.slowest_rank].host),
                        duration(r.slowest_times.own()));
  text += prediction_table(r);
  if (!r.bf16_products.empty())
    text += fmt::format("<p>bf16 products: {}.</p>\n", escape(r.bf16_products));
  if (!r.collectives_by.empty())
    text += fmt::format("<p>Collectives by the back-end {}.</p>\n", escape(r.collectives_by));
  return text;
}

std::string loss_section(const Deck& deck, const Result& r) {
  if (deck.run.compute != Compute::train || r.rows.empty()) return {};
  const std::string chart = to_html(loss_chart(deck, r));
  return "<h2>Loss</h2>\n" +
         (chart.empty() ? std::string("<p class=\"bad\">No step had a finite loss.</p>\n")
                        : chart) +
         fmt::format("<p>{} at step {}, {} at step {}.</p>\n", decimal(r.rows.front().loss, 6),
                     r.rows.front().step, decimal(r.rows.back().loss, 6), r.rows.back().step);
}

}  // namespace shardmark::html
