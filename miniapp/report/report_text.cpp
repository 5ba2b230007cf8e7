// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include <core/plan/interpret/node_volume.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/report/report_provenance.hpp>
#include <miniapp/report/report_stragglers.hpp>
#include <miniapp/report/report_text.hpp>
#include <miniapp/rules/official_rules.hpp>

namespace shardmark {

namespace {

void memory_table(Out out, const Program& p, const Result& r) {
  const bool pooled = p.memory_mode == MemoryMode::pooled;
  const auto measured = [&](std::int64_t bytes) { return pooled ? "-" : std::to_string(bytes); };
  fmt::format_to(out, "\nMemory, this rank (bytes; each row has its own peak)\n");
  fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}\n", "tier", "category", "predicted", "measured");
  for (const Tier t : all_values<Tier>) {
    const TierResult& tier = r.tiers[t];
    if (tier.predicted_peak == 0 && tier.measured_peak == 0) continue;
    const auto name = to_string(t);
    for (const Category c : all_values<Category>)
      if (tier.predicted[c] > 0 || tier.measured[c] > 0)
        fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}\n", name, to_string(c), tier.predicted[c],
                       measured(tier.measured[c]));
    fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}   {} at once, at {}\n", name, "live peak",
                   tier.live_peak, measured(tier.measured_peak), human_bytes(tier.live_peak),
                   tier.at);
    if (tier.pinned_peak > 0)
      fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}   {} that the driver of a device would lock\n",
                     name, "pinned", tier.pinned_peak, "-", human_bytes(tier.pinned_peak));
    if (t == Tier::nvme)
      fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}   {}, in unnamed files\n", name, "files",
                     tier.predicted_peak, tier.measured_peak, human_bytes(tier.measured_peak));
    else if (pooled)
      fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}   {}, allocated once\n", name, "arena",
                     tier.predicted_peak, tier.measured_peak, human_bytes(tier.measured_peak));
    fmt::format_to(out, "  {:<8}{:<12}{:>18}{:>18}   {}\n", name, "budget", tier.budget, "",
                   printable(tier.budget_source));
  }
  fmt::format_to(out, "  system  resident: {}\n", describe_resident(r));
  if (r.device) fmt::format_to(out, "  {}\n", describe(*r.device, r.allowance));
}

void collectives_table(Out out, const Deck& deck, const Program& p, const Result& r) {
  const Volume step = steady_volume(p);
  fmt::format_to(out,
                 "\nCollectives, this rank, whole run ({:.3f} elements per parameter and step{})\n",
                 volume_per_parameter(p, step), volume_note(p));
  std::size_t width = 15;
  for (const auto& [key, c] : r.collectives)
    width = std::max(width, collective_name(p, key).size() + 1);
  fmt::format_to(out, "  {:<{}}{:>9}{:>11}{:>16}{:>11}{:>11}{:>11}{:>13}\n", "", width, "calls",
                 "predicted", "bytes", "p50 ms", "p99 ms", "late ms", "busbw GB/s");
  for (const auto& [key, c] : r.collectives)
    fmt::format_to(out, "  {:<{}}{:>9}{:>11}{:>16}{:>11.3f}{:>11.3f}{:>11.3f}{:>13.2f}\n",
                   collective_name(p, key), width, c.measured.calls, c.predicted.calls,
                   c.measured.bytes, c.p50_s * 1e3, c.p99_s * 1e3, c.late_s * 1e3, c.bus_gb_s);
  if (r.collectives.empty()) fmt::format_to(out, "  none\n");
  if (const std::string sample = describe_sample(r); !sample.empty())
    fmt::format_to(out, "  {}\n", sample);
  if (const auto volume = volume_between_nodes(p, deck, r.profile.ranks_per_node))
    fmt::format_to(out, "  {}\n", describe(*volume, p));
}

void link_table(Out out, const Result& r) {
  if (!r.copies()) return;
  fmt::format_to(out, "\nHost link{}, this rank ({})\n", r.disk ? " and disk" : "",
                 r.emulated_link_gb_per_s
                     ? fmt::format("emulated: {} GB/s in each direction", *r.emulated_link_gb_per_s)
                     : "as fast as this machine copies");
  fmt::format_to(out, "  {:<15}{:>9}{:>11}{:>16}{:>15}{:>11}{:>9}{:>12}\n", "", "copies",
                 "predicted", "bytes", "bytes/step", "ms/step", "GB/s", "exposed ms");
  for (const Direction d : all_values<Direction>) {
    const LinkResult& l = r.link[d];
    if (l.predicted.copies + l.measured.copies == 0) continue;
    fmt::format_to(out, "  {:<15}{:>9}{:>11}{:>16}{:>15.0f}{:>11.3f}{:>9.2f}{:>12.3f}\n",
                   to_string(d), l.measured.copies, l.predicted.copies, l.measured.bytes,
                   l.bytes_per_step, l.busy_s * 1e3, l.gb_per_s(), l.exposed_s * 1e3);
  }
  if (r.disk) fmt::format_to(out, "  {}\n", describe(*r.disk));
}

void time_table(Out out, const Result& r) {
  const TimeResult& t = r.times;
  fmt::format_to(out, "\nTime, ms per timed step, this rank\n");
  fmt::format_to(out, "  forward {:.2f}   backward {:.2f}   optimizer {:.2f}   copies {:.2f}\n",
                 t.forward * 1e3, t.backward * 1e3, t.optimizer * 1e3, t.copies * 1e3);
  fmt::format_to(out,
                 "  matrix products {:.2f}   exposed communication {:.2f}   hidden communication "
                 "{:.2f}\n",
                 t.matmul * 1e3, t.exposed * 1e3, t.hidden * 1e3);
  if (!r.bf16_products.empty()) fmt::format_to(out, "  bf16 products {}\n", r.bf16_products);
  if (!r.collectives_by.empty()) fmt::format_to(out, "  collectives  {}\n", r.collectives_by);
  fmt::format_to(out, "  step p50 {:.2f}   p99 {:.2f}", r.step_p50_s * 1e3, r.step_p99_s * 1e3);
  if (r.ranks.size() > 1)
    fmt::format_to(out, "   most time without waiting: rank {} on {} ({:.2f})", r.slowest_rank,
                   r.ranks[r.slowest_rank].host, r.slowest_times.own() * 1e3);
  fmt::format_to(out, "\n");
}

void experts_lines(Out out, const Result& r) {
  if (r.experts.empty()) return;
  const auto fullest = std::ranges::max_element(r.experts, {}, &ExpertLoad::most);
  const auto emptiest = std::ranges::min_element(r.experts, {}, &ExpertLoad::least);
  fmt::format_to(out,
                 "\nExperts, tokens over the mean of their layer, all steps and ranks\n"
                 "  fullest {:.3f} (layer {})   emptiest {:.3f} (layer {})\n",
                 fullest->most, fullest->layer, emptiest->least, emptiest->layer);
  double most = 0, layers = 0;
  for (const ExpertLoad& e : r.experts) {
    most += e.rank_most;
    layers += e.rank_most > 0;
  }
  if (layers > 0)
    fmt::format_to(out,
                   "  fullest rank {:.3f} on the mean of {} layers: the others wait while it works "
                   "on {:.1f} % more rows than with balanced routing\n",
                   most / layers, layers, 100 * (most / layers - 1));
}

void prediction_table(Out out, const Result& r) {
  if (!r.prediction) return;
  const PredictedPoint& p = r.prediction->point;
  fmt::format_to(out, "\nTime, predicted on {}\n  {:<12}{:>13}{:>13}{:>15}\n",
                 r.prediction->standing, "", "predicted ms", "measured ms", "error");
  for (const PredictedTime& t : predicted_times(r))
    fmt::format_to(out, "  {:<12}{:>13.2f}{:>13.2f}{:>15}\n", t.name, t.predicted_s * 1e3,
                   t.measured_s * 1e3,
                   t.error() ? relation(t.predicted_s, t.measured_s) : std::string("–"));
  const MeasuredUse use = measured_use(r);
  if (use.mfu && use.hfu)
    fmt::format_to(out, "  MFU {:.1f} %   HFU {:.1f} %, of the peak that the machine file gives\n",
                   *use.mfu * 100, *use.hfu * 100);
  fmt::format_to(out,
                 "  limited by {}; 9 of 10 steps were predicted between {:.2f} and {:.2f} ms\n",
                 p.limited_by(), p.step_s_low * 1e3, p.step_s_high * 1e3);
  if (const std::string cores = cores_of_prediction(r); !cores.empty())
    fmt::format_to(out, "  {}\n", cores);
  for (const std::string& sentence : p.extrapolates)
    fmt::format_to(out, "  extrapolates {}\n", sentence);
  if (!p.memory.fits())
    fmt::format_to(out, "  that machine does not hold this deck: {}\n", p.memory.shortfall());
}

void checkpoint_table(Out out, const CheckpointFigures& c) {
  if (c.resumed_from.empty() && c.written == 0 && c.timed_write_s.empty()) return;
  fmt::format_to(out, "\nCheckpoints, all ranks (slowest rank's time, flushes included)\n");
  if (!c.resumed_from.empty())
    fmt::format_to(out, "  read     {} in {:.3f} s ({:.2f} GiB/s), {} files opened: {}\n",
                   human_bytes(c.read_bytes), c.read_s, gib_per_s(c.read_bytes, c.read_s),
                   c.files_opened, c.resumed_from);
  if (c.written > 0)
    fmt::format_to(out,
                   "  written  {} in {}, {:.3f} s ({:.2f} GiB/s); training waited for {:.3f} "
                   "s\n",
                   human_bytes(c.written_bytes), c.written, c.write_s,
                   gib_per_s(c.written_bytes, c.write_s), c.blocked_s);
  const auto timed = [&](const char* what, const std::vector<double>& seconds) {
    if (seconds.empty()) return;
    const auto [best, worst] = std::ranges::minmax_element(seconds);
    fmt::format_to(out, "  {:<8} {} of states, {} times: {:.3f} GiB/s ({:.3f} to {:.3f} s)\n", what,
                   human_bytes(c.timed_bytes), seconds.size(),
                   mean_gib_per_s(c.timed_bytes, seconds), *best, *worst);
  };
  timed("writes", c.timed_write_s);
  timed("reads", c.timed_read_s);
  if (!c.timed_read_s.empty())
    fmt::format_to(out, "           {}page cache {}; each rank read what the next one wrote\n",
                   c.file_system.empty() ? "" : c.file_system + "; ",
                   c.cached ? "not dropped" : "dropped");
  if (!c.newest.empty()) fmt::format_to(out, "  newest   {}, which stays\n", printable(c.newest));
}

// The reasons in 300 characters or few more: every check that failed is named, and has room for
// some of its sentence. The table of checks above and report.json have the sentences whole.
std::string short_reasons(const Result& r) {
  constexpr std::size_t longest = 300, least = 120;
  std::vector<std::string> reasons = r.list_of_reasons();
  std::size_t left = longest, others = reasons.size();
  for (std::string& reason : reasons) {
    reason = printable(reason);
    const std::size_t kept = --others * least;  // for the reasons that follow
    const std::size_t room = left > kept + least ? left - kept : least;
    if (reason.size() > room) reason = reason.substr(0, reason.rfind(' ', room)) + " ...";
    left -= std::min(left, reason.size());
  }
  return join(reasons, "; ");
}

}  // namespace

std::string heading(const Deck& deck, const Program& p, const std::optional<Fit>& fit,
                    const std::string& checkpoint, const std::string& run_class) {
  const auto needed = allocated_bytes(p);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "ShardMark: {} ({})\n", printable(deck.name), printable(deck.path));
  fmt::format_to(out, "  model      {}: {} parameters in {} units\n", to_string(deck.model.family),
                 p.model.parameters, p.model.units.size());
  for (const std::string& sentence : deck.assumptions)
    fmt::format_to(out, "  note       {}\n", printable(sentence));
  if (fit) fmt::format_to(out, "  model.fit  {}\n", describe(*fit));
  fmt::format_to(out, "  schedule   {}, ZeRO stage {}, {}, {} reductions\n", to_string(p.schedule),
                 p.stage, plural(p.world, "rank"), to_string(p.reductions));
  for (const Group& g : p.groups)
    if (!g.ranks.empty()) fmt::format_to(out, "  group      {}: {}\n", g.name, describe_ranks(g));
  fmt::format_to(
      out, "  batch      {} samples per step: {} per micro-batch x {} accumulation x {}\n",
      p.batch.global, p.batch.micro, p.batch.accumulation, plural(p.mesh.data_parts(), "rank"));
  fmt::format_to(out, "  memory     {} per rank, predicted\n", human_bytes(needed[0] + needed[1]));
  fmt::format_to(out, "  steps      {} warm-up, {} timed\n", deck.run.warmup, deck.run.steps);
  if (!checkpoint.empty()) fmt::format_to(out, "  checkpoint {}\n", printable(checkpoint));
  fmt::format_to(out, "  class      {}\n", printable(run_class));
  return text;
}

std::string report_text(const Deck& deck, const Program& p, const Result& r,
                        const std::string& folder) {
  std::string text;
  auto out = std::back_inserter(text);
  memory_table(out, p, r);
  collectives_table(out, deck, p, r);
  if (!r.comms_calls.empty())
    fmt::format_to(out, "\nCollectives one by one, as DeepSpeed's comms_logger prints them\n{}",
                   r.comms_calls);
  if (!r.comms_log.empty())
    fmt::format_to(out,
                   "\nCollectives by message size, as DeepSpeed's comms_logger summarizes them\n{}",
                   comms_log_text(r.comms_log));
  link_table(out, r);
  time_table(out, r);
  experts_lines(out, r);
  text += stragglers_table(r);
  prediction_table(out, r);
  checkpoint_table(out, r.checkpoints);
  if (!r.energy.nodes.empty()) fmt::format_to(out, "{}", describe(r.energy));
  if (deck.run.compute == Compute::train && !r.rows.empty())
    fmt::format_to(out, "\nLoss: {:.6f} at step {}, {:.6f} at step {}\n", r.rows.front().loss,
                   r.rows.front().step, r.rows.back().loss, r.rows.back().step);
  fmt::format_to(out,
                 "State hashes: param {:016x}  master {:016x}  momentum {:016x}  variance "
                 "{:016x}\n",
                 r.hashes.of[State::param], r.hashes.of[State::master],
                 r.hashes.of[State::momentum], r.hashes.of[State::variance]);
  fmt::format_to(out, "\nChecks\n");
  for (const Check& c : r.checks)
    fmt::format_to(out, "  {:<15}{:<16}{}\n", c.name,
                   c.state == Check::State::fail ? "FAIL" : to_string(c.state),
                   printable(c.detail));
  provenance_tables(out, r);
  for (const std::string& w : r.warnings) fmt::format_to(out, "warning: {}\n", printable(w));
  const Judged& division = r.run_class.division;
  fmt::format_to(out, "\ndivision {}{}\n{}\n\n", to_string(division.division),
                 division.reasons.empty()
                     ? std::string(": the shipped deck (docs/run-rules.md)")
                     : fmt::format(" ({})", printable(join(division.reasons, "; "))),
                 next_step(deck, r, folder));
  // The last three lines stay what they are without model.fit.
  if (const auto merit = parameter_tokens_per_s(p, r); r.fit && merit)
    fmt::format_to(
        out,
        "model.fit chose {} with {} parameters: tokens_per_s compares only with runs of "
        "this size, parameter_tokens_per_s with all\nFOM parameter_tokens_per_s={:.6g}\n",
        plural(deck.model.layers, "layer"), p.model.parameters, *merit);
  for (const FigureOfMerit& merit : figures_of_merit(r))
    fmt::format_to(out, "FOM {}={:.6g}\n", merit.name, merit.value);
  fmt::format_to(out, "CLASS={}\n",
                 r.run_class.official()
                     ? "official"
                     : fmt::format("unofficial ({})", printable(join(r.run_class.reasons, "; "))));
  fmt::format_to(out, "RESULT={}\n",
                 r.valid() ? "VALID" : fmt::format("INVALID ({})", short_reasons(r)));
  return text;
}

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
