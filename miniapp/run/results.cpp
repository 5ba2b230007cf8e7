// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/percentile.hpp>
#include <core/plan/interpret/planned_runs.hpp>
#include <core/plan/interpret/print.hpp>
#include <io/files/hash.hpp>
#include <miniapp/measure/comparisons.hpp>
#include <miniapp/measure/reference.hpp>
#include <miniapp/measure/stragglers.hpp>
#include <miniapp/measure/timings.hpp>
#include <miniapp/measure/verdict.hpp>
#include <miniapp/prove/state_hash.hpp>
#include <miniapp/provenance/environment.hpp>
#include <miniapp/provenance/provenance.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/report/report_json.hpp>
#include <miniapp/run/results.hpp>

namespace shardmark {
namespace {

// For each step that the run had to do, whether it was skipped. Only a run that was stopped says
// itself how many steps it did.
std::vector<bool> steps_due(const Deck& deck, const RunRecord& record) {
  std::vector<bool> skipped = record.skipped;
  if (record.stop == StopCause::none)
    skipped.resize(static_cast<std::size_t>(
        std::max<std::int64_t>(0, deck.run.warmup + deck.run.steps - record.first_step)));
  return skipped;
}

void compare_with_plan(const RunPlan& run, RunSession& session, const RunRecord& record,
                       Peers& peers, Result& result, Observed& observed) {
  const Deck& deck = run.loaded.deck;
  const Program& program = run.program;
  const LedgerSnapshot memory = session.session().memory();
  for (const Tier t : all_values<Tier>) {
    result.tiers[t].budget = run.budgets.bytes[t].value_or(0);
    result.tiers[t].budget_source = run.budgets.source[t];
  }
  const SegmentRuns runs = planned_runs(program, steps_due(deck, record), record.first_step > 0);
  compare_memory(program, segments_of_runs(runs), memory, record.slots, peers, result, observed);
  compare_calls(program, runs,
                {session.counters(), session.executor().runs(), session.executor().routed()}, peers,
                result, observed);
  compare_copies(deck, copies_of_runs(program, runs), session.executor().carried(), record, peers,
                 result, observed);
  const Executor& executor = session.executor();
  compare_disk(executor.carried(), {executor.disk().direct(), executor.disk().kernel_bytes()},
               peers, result, observed);
  compare_system(deck, record, memory, peers, result, observed);
}

// Rank 0 has predictions.
void fill_prediction(const RunPlan& run, const RunRecord& record, Result& result) {
  if (run.predictions.empty()) return;
  result.core_to_core_s = percentile(record.timed_part(record.core_to_core_s), 0.5);
  result.prediction = in_placement(run.predictions, result.core_to_core_s);
  const double known_s = result.prediction->core_to_core_s;
  if (known_s > 0 && result.core_to_core_s > 0 &&
      is_other_placement(result.core_to_core_s, known_s))
    result.prediction->point.extrapolates.push_back(
        fmt::format("cores that are {:.0f} ns apart: {:.3g} times what was measured",
                    result.core_to_core_s * 1e9, result.core_to_core_s / known_s));
}

void fill_comms_log(const RunPlan& run, std::vector<CollectiveRecord> calls,
                    const CommCounters& counters, Result& result) {
  const DsLogSpec& spec = run.loaded.output.deepspeed;
  if (!spec.comms) return;
  calls.insert(calls.end(), counters.records().begin(), counters.records().end());
  result.comms_log = comms_log(calls, run.program.world, spec);
  if (spec.comms_verbose) result.comms_calls = comms_calls_text(calls, run.program.world, spec);
}

// By layer, empty if no rows were counted: those of the fullest rank over the mean of all.
std::vector<double> rank_loads(std::span<const std::int64_t> mine, Peers& peers) {
  const std::vector<std::int64_t> all =
      peers.gather(std::vector<std::int64_t>(mine.begin(), mine.end()));
  std::vector<double> loads;
  for (std::size_t layer = 0; layer < mine.size(); ++layer) {
    std::int64_t most = 0, sum = 0;
    for (std::size_t i = layer; i < all.size(); i += mine.size()) {
      most = std::max(most, all[i]);
      sum += all[i];
    }
    loads.push_back(sum == 0 ? 0
                             : static_cast<double>(most) * peers.size() / static_cast<double>(sum));
  }
  return loads;
}

// By layer. Each rank has counted the tokens that its experts saw.
std::vector<ExpertLoad> expert_loads(const ModelSpec& model, const Model& counts, Peers& peers) {
  std::vector<ExpertLoad> loads;
  const std::span mine = counts.expert_rows();
  if (mine.empty()) return loads;
  const std::vector<double> by_rank = rank_loads(counts.arrived_rows(), peers);
  std::vector<double> rows(mine.begin(), mine.end());
  peers.sum(rows);
  const auto experts = static_cast<std::ptrdiff_t>(model.decoder->moe.experts);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto first = rows.begin() + layer * experts, last = first + experts;
    const double mean = std::accumulate(first, last, 0.0) / static_cast<double>(experts);
    if (mean == 0) continue;  // a dense layer
    loads.push_back({layer, *std::max_element(first, last) / mean,
                     *std::min_element(first, last) / mean, by_rank.empty() ? 0 : by_rank[layer]});
  }
  return loads;
}

// Rank 0 compares, since it has all that is needed.
std::optional<Check> reference_check(const RunPlan& run, const Result& result, Peers& peers) {
  std::optional<Check> check;
  peers.agree([&] {
    if (peers.rank() != 0) return;
    const nlohmann::json deck = nlohmann::json::parse(run.loaded.used_json);
    check = check_reference({deck, run.loaded.deck, run.program, result.rows,
                             state_hash_json(result.hashes), result.data});
  });
  constexpr int none = -1;
  const int state = peers.gather(check ? static_cast<int>(check->state) : none).front();
  if (state == none) return {};
  return Check{"reference", static_cast<Check::State>(state),
               peers.broadcast(check ? check->detail : "", 0)};
}

// Rank 0 judges, since it reports.
void judge_run_class(const RunPlan& run, Peers& peers, Result& result) {
  peers.agree([&] {
    if (peers.rank() != 0) return;
    ClassFacts facts = run.class_facts;
    const CheckpointFigures& files = result.checkpoints;
    facts.end = {result.timed_s, !result.stopped.empty(), files.timed_write_s, files.cached,
                 files.node_memory_bytes};
    result.run_class = class_of(facts);
  });
}

}  // namespace

Result collect_results(const RunPlan& run, RunSession& session, Trainer& trainer,
                       const Checkpoints& checkpoints, const World& world) {
  const Deck& deck = run.loaded.deck;
  const Program& program = run.program;
  const RunRecord& record = trainer.record();
  const CommCounters& counters = session.counters();
  Peers& peers = world.peers;
  Result result;
  Observed observed;
  result.identity = {fmt::format("{:016x}", shared_seed(peers)), run.started, utc_now()};
  result.fit = run.fit;
  fill_prediction(run, record, result);
  result.bf16_products = session.bf16_products();
  result.collectives_by = session.collectives();
  result.trace = trainer.drawn_step();
  fill_rows(record, program.batch.accumulation, peers, result);
  compare_with_plan(run, session, record, peers, result, observed);
  time_calls(program, record, counters.records(), session.clock_offset_ns(), peers, result);
  result.experts = expert_loads(deck.model, session.session().model(), peers);
  fill_times(deck, program, record, peers, result);
  fill_stragglers(record, session.slowed_ranks(), peers, result);
  result.stragglers.congestion = congestion_result(deck, session.congested_ranks(), record, peers);
  result.hashes = hash_states(session.context(), program, session.executor(), peers);
  result.energy =
      collect_energy(trainer.meters(), trainer.phases(), world.node.host, world.node.ranks,
                     record.timed_s, result.tokens_per_s * record.timed_s, peers);
  fill_comms_log(run, trainer.untimed_calls(), counters, result);
  result.deck_text = run.loaded.used_json;
  result.deck_hash = run.loaded.hash;
  result.profile = run.profile;
  result.sets = run.loaded.sets;
  result.data = run.class_facts.used.data;
  result.plan_hash = hash_hex(print_text(program));
  result.versions = library_versions();
  result.checkpoints = checkpoints.figures();
  result.stop = record.stop;
  if (record.stop != StopCause::none)
    result.stopped = fmt::format("stopped by {} after step {}", to_string(record.stop),
                                 session.steps().position().step);
  result.ranks = rank_infos(world.node, peers);
  result.warnings = placement_warnings(result.ranks);
  if (std::string warning = environment_warning(result.ranks); !warning.empty())
    result.warnings.push_back(std::move(warning));
  if (session.proof() != nullptr) result.proof = trainer.prover().result(record.timed_s);
  observed.values_mismatch = trainer.prover().first_failure();
  result.binaries = loaded_binaries();
  observed.inputs = trainer.prover().data_difference();
  if (observed.inputs.empty())
    observed.inputs = compare_binaries(result.binaries, result.ranks, peers);
  if (observed.inputs.empty()) observed.inputs = environment_difference(result.ranks);
  observed.clocks = compare_clocks(record.clocks, peers);
  observed.self_check = session.self_check();
  if (run.fault.kind != Fault::none)
    observed.injected = fmt::format("SHARDMARK_FAULT={}", to_string(run.fault));
  observed.reference = reference_check(run, result, peers);
  result.replay = trainer.replay().again(record.stop != StopCause::none);
  judge(deck, program, observed, result);
  judge_run_class(run, peers, result);
  return result;
}

}  // namespace shardmark
