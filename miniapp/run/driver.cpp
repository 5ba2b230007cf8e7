// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <core/error.hpp>
#include <core/memory/device_memory.hpp>
#include <core/memory/ledger.hpp>
#include <core/memory/process_memory.hpp>
#include <core/memory/read_back.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/print.hpp>
#include <io/data/tokens.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/hash.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/execute/scoped_timer.hpp>
#include <miniapp/execute/step_runner.hpp>
#include <miniapp/measure/measure.hpp>
#include <miniapp/models/list_model.hpp>
#include <miniapp/models/transformer_model.hpp>
#include <miniapp/provenance/placement.hpp>
#include <miniapp/provenance/provenance.hpp>
#include <miniapp/ranks/clock_offset.hpp>
#include <miniapp/ranks/lanes.hpp>
#include <miniapp/report/deepspeed_wall_clock.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/report_json.hpp>
#include <miniapp/report/report_text.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/report/trace_file.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/progress.hpp>
#include <miniapp/run/self_check.hpp>
#include <miniapp/run/setup.hpp>

namespace shardmark {
namespace {

constexpr double overflow_norm = -1;  // of a skipped step, as DeepSpeed reports it

class Run {
 public:
  Run(const RunArguments& arguments, const World& world)
      : arguments_(arguments), world_(world), node_(world.node), peers_(world.peers) {}

  void read();             // deck and batch, the same on all ranks
  void plan();             // program: legal, of as many layers as fit where model.fit says so
  void refuse_or_go_on();  // does it fit, can output be written, what does it go on from
  void prepare();          // lanes, kernels, data, self-check
  void train();            // init, warm-up, timed steps
  void store();            // what is still being written; the storage benchmark
  void settle();           // what all ranks saw, put together
  void report();           // judged, printed, written
  RunOutcome outcome();

 private:
  bool first_rank() const { return peers_.rank() == 0; }
  bool prints() const { return first_rank() && !arguments_.quiet; }
  void one_step(std::int64_t step);
  void traced_step(std::int64_t step);
  void step(std::int64_t step, Progress& progress);
  void write_trace();
  std::int64_t checkpoint(std::int64_t steps_done);
  void note_resident();
  template<class Body>
  void with_files_mapped(Body body);

  const RunArguments& arguments_;
  const World& world_;
  const Node& node_;
  Peers& peers_;
  Fault fault_ = Fault::none;
  LoadedDeck loaded_;
  Batch batch_;
  Program program_;
  Profile profile_;
  RunBudgets budgets_;
  std::optional<OutputFolder> output_;
  CommCounters counters_;
  std::unique_ptr<Communicator> lane_;
  std::vector<std::unique_ptr<Communicator>> group_lanes_;
  std::optional<MatMul> matmul_;
  std::optional<Context> context_;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<Model> model_;
  std::optional<Ledger> ledger_;
  std::optional<Executor> executor_;
  std::optional<StepRunner> steps_;
  std::optional<Checkpoints> checkpoints_;
  std::int64_t clock_offset_ns_ = 0;
  StepTrace last_trace_;
  std::vector<StepTrace> traces_;                // for the deck's `trace`
  std::vector<CollectiveRecord> untimed_calls_;  // before the timed steps, where they are logged
  Noted noted_;
  Observed observed_;
  Result result_;
};

void Run::read() {
  peers_.agree([&] {
    fault_ = fault_from_environment();
    loaded_ = read_deck(arguments_.deck, arguments_.sets, DeckUse::run);
    batch_ = infer_batch(loaded_.deck.zero, peers_.size(), loaded_.deck.path);
    profile_ = run_profile(loaded_.deck, node_, peers_.size());
  });
  const auto hashes = peers_.gather(loaded_.hash);  // a stale copy on one node is told at once
  peers_.agree([&] {
    for (std::size_t r = 1; r < hashes.size(); ++r)
      if (hashes[r] != hashes[0])
        throw DeckError(
            fmt::format("{}: rank {} has another deck (hash {}) than rank 0 (hash {}): "
                        "give all ranks the same file and arguments",
                        loaded_.deck.path, r, hashes[r], hashes[0]));
  });
}

void Run::plan() {
  Deck& deck = loaded_.deck;
  if (deck.model.fit) {
    const FitBudget budget = run_fit_budget(deck, profile_.ranks_per_node, peers_);
    peers_.agree([&] {
      result_.fit = apply_fit(deck, batch_, peers_.size(), profile_, budget);
      require_a_layer(deck, *result_.fit);
    });
  }
  peers_.agree([&] {
    program_ = build_legal_program(deck, batch_, peers_.size(), peers_.rank(), profile_);
  });
}

void Run::refuse_or_go_on() {
  peers_.agree([&] {
    budgets_ = run_budgets(loaded_.deck, allocated_bytes(program_), profile_.ranks_per_node);
    if (const auto refusal = budgets_.shared
                                 ? over_shared_budget(program_, *budgets_.shared, node_.ranks)
                                 : std::nullopt)
      throw MemoryError(loaded_.deck.path + ": " + *refusal);
    if (const auto refusal = over_budget(program_, budgets_.bytes, node_.ranks))
      throw MemoryError(loaded_.deck.path + ": " + *refusal);
  });
  peers_.agree([&] {
    if (first_rank()) output_.emplace(arguments_.out, loaded_.telling.trace);
  });
  checkpoints_.emplace(loaded_, program_, world_.comm, peers_);
}

void Run::prepare() {
  const Deck& deck = loaded_.deck;
  if (prints()) print_out(heading(deck, program_, result_.fit, checkpoints_->notice()) + "\n");
  const Bf16Choice bf16 = choose_bf16_products(deck, profile_.workspace_cap_bytes, Space(), peers_);
  result_.bf16_products = bf16.told;
  noted_.rss_start = process_memory().resident_bytes;
  noted_.device.start = device_memory_in_use(profile_.ranks_per_node);
  static_cast<void>(reset_peak_resident());  // where it is refused, start-up counts as ours
  world_.watch.set_timeout(deck.comm.timeout_s);
  peers_.agree([&] {
    lane_ = make_run_lane(deck, world_.comm, world_.watch, fault_, counters_);
    group_lanes_ = make_group_lanes(*lane_, program_);
    matmul_.emplace(profile_.workspace_cap_bytes, bf16.products);
    context_.emplace(Context{Space(), *matmul_});
    if (deck.run.compute == Compute::train) {
      tokens_ = make_token_source(deck);
      model_ = std::make_unique<TransformerModel>(deck, program_, *context_, *tokens_);
    } else {
      model_ = std::make_unique<ListModel>(deck, *context_);
    }
  });
  clock_offset_ns_ = clock_offset_ns(peers_, node_.host);
  const std::vector<Communicator*> lanes = all_lanes(*lane_, group_lanes_);
  observed_.self_check = self_check(deck, profile_, *context_, lanes, peers_, fault_);
  noted_.device.ready = device_memory_in_use(profile_.ranks_per_node);
  counters_.reset();
  ledger_.emplace();
  executor_.emplace(program_, *model_, lanes, context_->space, &*ledger_,
                    ExecutorOptions{fault_, world_.watch.idle(), deck.machine.host_link_gbps,
                                    disk_options(deck)});
  executor_->copies_on(make_copy_lane(native_stream(context_->space)));
  steps_.emplace(deck, program_, *executor_);
  context_->poll = [](void* executor) { static_cast<Executor*>(executor)->poll(); };
  context_->poll_arg = &*executor_;
}

void Run::one_step(std::int64_t step) {
  const std::int64_t start_ns = monotonic_ns();
  const bool done = steps_->step(step);
  if (steps_->exhausted())
    peers_.agree([&] {
      throw DeckError(fmt::format(
          "{}: deepspeed.fp16.min_loss_scale = {}: gradients overflow even at this scale, in step "
          "{}: DeepSpeed ends a run there; lower it, or the learning rate, or use bf16",
          loaded_.deck.path, loaded_.deck.zero.precision.loss_scale.min_scale, step));
    });
  const int loss = executor_->find_slot("loss");
  noted_.losses.push_back(loss < 0
                              ? std::numeric_limits<double>::quiet_NaN()
                              : read_back(context_->space, executor_->slot(loss).as<double>()));
  noted_.norms.push_back(done ? executor_->norm() : overflow_norm);
  noted_.lrs.push_back(steps_->values().lr);
  noted_.loss_scales.push_back(steps_->values().loss_scale);
  noted_.skipped.push_back(!done);
  noted_.seconds.push_back(static_cast<double>(monotonic_ns() - start_ns) * 1e-9);
}

void Run::traced_step(std::int64_t step) {
  last_trace_ = {};
  const bool recording = counters_.recording();
  counters_.recording(true);
  const auto before = static_cast<std::ptrdiff_t>(counters_.records().size());
  executor_->trace(&last_trace_);
  one_step(step);
  executor_->trace(nullptr);
  counters_.recording(recording);
  last_trace_.step = step;
  last_trace_.collectives = {counters_.records().begin() + before, counters_.records().end()};
  last_trace_.collective_names = counters_.names();
}

// The last warm-up step is traced for the page: as the timed ones, as far as the plan goes, and
// none of them is disturbed. Of the timed ones those are that the deck asks for.
void Run::step(std::int64_t step, Progress& progress) {
  const RunSpec& spec = loaded_.deck.run;
  const std::int64_t every = loaded_.telling.deepspeed.wall_clock_every;
  const std::int64_t timed = step - noted_.first_step - noted_.warmup;
  const bool drawn = first_rank() && step + 1 == spec.warmup;
  const bool kept = !loaded_.telling.trace.empty() && timed >= 0 && timed < most_traced_steps;
  const bool told = prints() && every > 0 && (step + 1) % every == 0;
  if (!drawn && !kept && !told) return one_step(step);
  traced_step(step);
  if (told) {
    progress.done();  // its line is rewritten on a terminal
    print_out(wall_clock_lines(program_, last_trace_));
  }
  if (drawn) result_.trace = last_trace_;
  if (kept) traces_.push_back(std::move(last_trace_));
}

void Run::note_resident() {
  noted_.rss_peak = std::max(noted_.rss_peak, process_memory().peak_resident_bytes);
}

// A checkpoint sees states in files as memory. While it does, their pages count as resident, but
// are the page cache's.
template<class Body>
void Run::with_files_mapped(Body body) {
  if (!program_.has_files()) return body();
  note_resident();
  body();
  executor_->unmap_files();
  static_cast<void>(reset_peak_resident());
}

// What it took: checkpoints are no part of the figure of merit. The barrier ends the step for all,
// so that nobody waits for a slower rank at their expense.
std::int64_t Run::checkpoint(std::int64_t steps_done) {
  if (!checkpoints_->due(steps_done)) return 0;
  peers_.barrier();
  const std::int64_t start_ns = monotonic_ns();
  with_files_mapped([&] { checkpoints_->write(*executor_, *steps_); });
  return monotonic_ns() - start_ns;
}

void Run::train() {
  const RunSpec& spec = loaded_.deck.run;
  const std::int64_t first = checkpoints_->first_step(), all = spec.warmup + spec.steps;
  noted_.first_step = first;
  noted_.warmup = std::max<std::int64_t>(0, spec.warmup - first);
  noted_.steps = std::max<std::int64_t>(0, all - std::max(first, spec.warmup));
  const std::int64_t tokens = program_.batch.global * loaded_.deck.model.sequence;
  Progress progress(prints(), first, all, spec.warmup, tokens);
  std::int64_t apart_ns = 0;  // in checkpoints
  auto steps = [&](std::int64_t from, std::int64_t count) {
    for (std::int64_t s = from; s < from + count; ++s) {
      step(s, progress);
      progress.step(s, noted_.losses.back() / static_cast<double>(program_.batch.accumulation),
                    noted_.seconds.back());
      apart_ns += checkpoint(s + 1);
    }
  };

  counters_.recording(loaded_.telling.deepspeed.comms);
  steps_->init();
  with_files_mapped([&] { checkpoints_->restore(*executor_, *steps_); });
  steps(first, noted_.warmup);
  peers_.barrier();
  executor_->reset_times();
  untimed_calls_ = counters_.take_records();
  counters_.recording(true);
  const std::int64_t matmul_before_ns = matmul_->matmul_ns();
  apart_ns = 0;
  const std::int64_t start_ns = monotonic_ns();
  steps(first + noted_.warmup, noted_.steps);
  peers_.barrier();
  noted_.timed_s = static_cast<double>(monotonic_ns() - start_ns - apart_ns) * 1e-9;
  noted_.matmul_ns = matmul_->matmul_ns() - matmul_before_ns;
  noted_.times = executor_->times();
  noted_.link = executor_->link_times();
  counters_.recording(false);
  progress.done();
}

void Run::store() {
  checkpoints_->finish();
  with_files_mapped([&] { checkpoints_->measure(*executor_, *steps_); });
}

void Run::settle() {
  const Deck& deck = loaded_.deck;
  note_resident();
  noted_.device.end = device_memory_in_use(profile_.ranks_per_node);
  LedgerSnapshot ledger = ledger_->snapshot();
  ledger.tiers[static_cast<std::size_t>(Tier::nvme)] = executor_->files();
  noted_.device.ledger_bytes = ledger[Tier::device].live_bytes;
  for (std::size_t t = 0; t < tier_count; ++t) {
    result_.tiers[t].budget = budgets_.bytes[t].value_or(0);
    result_.tiers[t].budget_source = budgets_.source[t];
  }
  fill_rows(noted_, program_.batch.accumulation, peers_, result_);
  compare_memory(program_, steps_->ran(), ledger, peers_, result_, observed_);
  compare_calls(program_, *steps_, counters_, peers_, result_, observed_);
  compare_copies(deck, steps_->predicted_copies(), executor_->carried(), noted_, peers_, result_,
                 observed_);
  compare_disk(*executor_, peers_, result_, observed_);
  time_calls(program_, counters_, clock_offset_ns_, peers_, result_);
  compare_system(deck, noted_, ledger, peers_, result_, observed_);
  fill_times(deck, program_, noted_, counters_, peers_, result_);
  result_.hashes = hash_states(*context_, program_, *executor_, peers_);
  if (loaded_.telling.deepspeed.comms) {
    std::vector<CollectiveRecord> calls = std::move(untimed_calls_);
    calls.insert(calls.end(), counters_.records().begin(), counters_.records().end());
    const DsLogSpec& spec = loaded_.telling.deepspeed;
    result_.comms_log = comms_log(calls, program_.world, spec);
    if (spec.comms_verbose) result_.comms_calls = comms_calls_text(calls, program_.world, spec);
  }
  result_.deck_text = loaded_.used_json;
  result_.deck_hash = loaded_.hash;
  result_.plan_hash = hash_hex(print_text(program_));
  result_.versions = library_versions();
  result_.checkpoints = checkpoints_->figures();
  result_.ranks = rank_infos(node_, peers_);
  result_.warnings = placement_warnings(result_.ranks);
  observed_.traced =
      !loaded_.telling.trace.empty() || loaded_.telling.deepspeed.wall_clock_every > 0;
  observed_.deck_changed = loaded_.overridden;
  if (fault_ != Fault::none)
    observed_.injected = fmt::format("SHARDMARK_FAULT={}", to_string(fault_));
}

// Rank after rank: no rank holds more than one other's part.
void Run::write_trace() {
  if (loaded_.telling.trace.empty()) return;
  const std::int64_t first_ns =
      traces_.empty() ? INT64_MAX : traces_[0].events.front().begin_ns + clock_offset_ns_;
  const auto all = peers_.gather(first_ns);
  const TraceClock clock{clock_offset_ns_, *std::min_element(all.begin(), all.end())};
  const std::string mine = trace_events(program_, traces_, clock, node_.host);
  int rank = -1;
  const auto next = [&]() -> std::string {
    if (++rank > peers_.size()) return {};
    if (rank == peers_.size()) return trace_end();
    const std::string part = peers_.broadcast(mine, rank);
    return (rank == 0 ? trace_begin(program_, loaded_.deck.name) : ",\n") + part;
  };
  const auto pass_on = [&] {  // the others wait for each part, even where it cannot be written
    while (!next().empty()) continue;
  };
  peers_.agree([&] {
    if (!first_rank()) return pass_on();
    try {
      output_->replace_in_pieces(loaded_.telling.trace, next);
    } catch (const IoError&) {
      pass_on();
      throw;
    }
  });
}

void Run::report() {
  judge(loaded_.deck, program_, observed_, result_);
  peers_.agree([&] {  // before the files: where they cannot be written the figures are not lost
    if (prints()) print_out(report_text(loaded_.deck, program_, result_));
  });
  peers_.agree([&] {
    if (!first_rank()) return;
    output_->replace(losses_file, losses_csv(result_.rows));
    output_->replace(page_file, report_html(loaded_.deck, program_, result_));
    output_->replace(report_file, report_json(loaded_.deck, program_, result_));
  });
  write_trace();
}

RunOutcome Run::outcome() {
  const ExitStatus status = result_.valid() ? ExitStatus::valid : ExitStatus::invalid;
  return {status, loaded_.deck, program_, std::move(result_)};  // the executor still looks at them
}

}  // namespace

RunOutcome run_deck(const RunArguments& arguments, const World& world) {
  Run run(arguments, world);
  run.read();
  run.plan();
  run.refuse_or_go_on();
  run.prepare();
  run.train();
  run.store();
  run.settle();
  run.report();
  return run.outcome();
}

}  // namespace shardmark
