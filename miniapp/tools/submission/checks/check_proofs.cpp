// SPDX-License-Identifier: Apache-2.0
// What a run proved while and after it ran: the collectives of some steps, and one step made again.
#include <miniapp/measure/result.hpp>
#include <miniapp/prove/replay_result.hpp>
#include <miniapp/tools/submission/checks/checks.hpp>

namespace shardmark {
namespace {

// The sentence of a check that passed follows from the figures beside it.
void compare_detail(const ReportReader& report, std::string_view name, const std::string& detail,
                    Findings& findings) {
  for (const ReportReader& one : report.list("/checks"))
    if (one.text("/name") == name && one.text("/state") == to_string(Check::State::pass))
      findings.compare(fmt::format("the check {}", name), one.text("/detail"), detail);
}

}  // namespace

void check_proof(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  const std::int64_t world = report.integer("/world");
  if (world == 1 && report.has("/proof"))
    findings.refuse("proof: one rank communicates with no other");
  if (world == 1) return;
  const ProofResult proof = reported_proof(report);
  const auto steps = static_cast<std::int64_t>(facts.timed().size());
  if (!facts.was_stopped()) findings.compare("timed steps of the proof", proof.timed_steps, steps);
  std::int64_t proved = 0, calls = 0;
  double proved_s = 0;
  for (std::int64_t s = 0; s < steps; ++s)
    if (is_proved(proof, s)) {
      ++proved;
      proved_s += facts.timed()[s].seconds;
    }
  findings.compare("proved steps", proof.proved_steps, proved);
  for (const auto& [op, traffic] : volume_of_runs(facts.planned.program, facts.timed_runs))
    calls += traffic.calls;
  findings.at_most({"the number of proved collectives", static_cast<double>(proof.collectives)},
                   {"the collectives of the timed steps", static_cast<double>(calls)});
  if (proof.collectives < proved)
    findings.refuse(fmt::format("proof: {} collectives in {} steps: each step has one",
                                proof.collectives, proved));
  // The proof works within the steps that it proves; the span is that of rank 0.
  findings.is_time({"the cost of the proof", proof.cost});
  findings.at_most({"the time of the proof, in s,", proof.cost * report.number("/energy/seconds")},
                   {"the steps that it proved", proved_s});
  compare_detail(report, "values", describe(proof), findings);
}

void check_replay(const RunFacts& facts, Findings& findings) {
  const ReportReader& report = facts.report;
  if (!report.has("/replay")) return;
  const Deck& deck = facts.planned.loaded.deck;
  const PrecisionSpec& precision = deck.zero.precision;
  const auto ranks = static_cast<int>(report.integer("/world"));
  ReplayResult replay;
  replay.step = report.integer("/replay/step");
  replay.gradient = report.number("/replay/gradient_difference");
  const GradientTrace trace = gradient_trace(deck.zero.optimizer, deck.zero.gradient_clipping);
  if (trace.norm > 0 && report.has("/replay/norm_difference"))
    replay.norm = report.number("/replay/norm_difference");
  replay.bound = gradient_bound(
      replay_bounds(deck.run.reductions, precision.comm, precision.computes_in(), ranks), trace,
      replay.norm);
  const auto first = static_cast<std::int64_t>(facts.warmup());
  if (replay.step < first || replay.step >= first + static_cast<std::int64_t>(facts.timed().size()))
    findings.refuse(fmt::format("replay: step {} is no timed step", replay.step));
  findings.compare_number("bound of the replay", report.number("/replay/bound"), replay.bound);
  findings.is_time({"the difference of the norms", replay.norm});
  findings.at_most({"the difference of the norms", replay.norm}, {"its bound", trace.norm});
  findings.is_time({"the difference of the replay", replay.gradient});
  findings.at_most({"the difference of the replay", replay.gradient}, {"its bound", replay.bound});
  compare_detail(report, "replay", describe(replay), findings);
}

}  // namespace shardmark
