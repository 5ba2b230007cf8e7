// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/core.h>

#include <core/clock.hpp>
#include <core/error.hpp>
#include <core/memory/process_memory.hpp>
#include <core/percentile.hpp>
#include <core/text.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/report/deepspeed_wall_clock.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/report/trace_file.hpp>
#include <miniapp/rules/run_class.hpp>
#include <miniapp/run/trainer.hpp>

namespace shardmark {
namespace {

constexpr auto energy_phases = enum_table<Phase, std::optional<EnergyPhase>>(
    std::nullopt, EnergyPhase::forward, EnergyPhase::backward, EnergyPhase::optimizer);

// The pace of the storage benchmark is judged after this many writes.
constexpr std::size_t paced_writes = 2;

// If the run is compared with a prediction, at most one step of this many is proved. The others
// show how long a step takes without a proof.
constexpr std::int64_t compared_period = 2;

constexpr double overflow_norm = -1;  // of a skipped step, as DeepSpeed reports it

// Of one phase of checkpoints: comm.timeout_s, and the time that a slow file system needs for the
// states of a rank, as often as they are transferred.
double checkpoint_limit_s(const RunPlan& run) {
  const Deck& deck = run.loaded.deck;
  double bytes = 0;
  for (const StatePiece& piece : run.program.states)
    bytes += static_cast<double>(piece.elems * dtype_bytes(run.program.slots[piece.slot].dtype));
  const auto times = static_cast<double>(2 + 2 * deck.checkpoint.benchmark);
  return deck.comm.timeout_s + times * bytes / least_file_bytes_per_s;
}

// Collective. The same number on all ranks, since they compare the records of their collectives.
std::int64_t steps_to_record(const Program& program, Peers& peers) {
  std::int64_t calls = 0;
  for (const auto& [op, traffic] : steady_volume(program)) calls += traffic.calls;
  return CallSample::steps_of(static_cast<std::int64_t>(peers.max(static_cast<double>(calls))));
}

}  // namespace

Trainer::Trainer(const RunPlan& run, RunSession& session, Checkpoints& checkpoints,
                 const World& world, bool prints)
    : run_(run),
      session_(session),
      checkpoints_(checkpoints),
      peers_(world.peers),
      prints_(prints),
      prover_(session.proof(), session.data_witness(), world.peers, run.program.mesh.sharing()),
      replay_(run, session, world),
      stop_(world.peers) {
  record_.rss_start = session.memory_at_start().resident_bytes;
  record_.rss_start_files = session.memory_at_start().file_bytes;
  record_.device = session.device();
  if (session.node().local_rank == 0) open_meters();
}

// A device works behind the host, which is then in another phase.
void Trainer::open_meters() {
  const char* root = std::getenv("SHARDMARK_SYSFS");
  meters_.emplace(root != nullptr ? root : "");
  phases_.emplace(*meters_,
                  device_is_host ? "" : "the device works behind the host, whose phases are known");
  if (!meters_->energy().empty())
    session_.executor().on_phase([this](Phase phase) { enter_phase(energy_phases[phase]); });
}

void Trainer::enter_phase(std::optional<EnergyPhase> phase) {
  if (phases_) phases_->enter(phase);
}

// Of the warm-up steps the last one is drawn by the report, so the one before it is proved.
bool Trainer::proves(std::int64_t step) const {
  const std::int64_t in_run = step - record_.first_step;
  if (in_run >= record_.warmup) return prover_.drawn(in_run - record_.warmup);
  return in_run == std::max<std::int64_t>(0, record_.warmup - 2);
}

StopCause Trainer::own_cause() const {
  const StopCause signal = signal_received();
  const auto& limit_s = run_.loaded.deck.run.time_limit_s;
  const bool over = limit_s && seconds_since(run_.start_ns) >= *limit_s;
  return signal == StopCause::none && over ? StopCause::time_limit : signal;
}

void Trainer::plain_step(std::int64_t step) {
  StepRunner& steps = session_.steps();
  const Executor& executor = session_.executor();
  const std::int64_t start_ns = monotonic_ns();
  const LaneTimes times_before = executor.times();
  const std::int64_t injected_before_ns = session_.injected_ns();
  const std::int64_t written_before = session_.emulated().written_bytes;
  session_.slow_down_in(step);
  const bool proved = proves(step);
  record_.proved.push_back(proved);
  if (proved) prover_.begin(step);
  if (phases_) phases_->step();
  const bool updated = steps.step(step, [this] { stop_.start(own_cause()); });
  enter_phase(std::nullopt);
  if (proved) prover_.end();
  if (steps.exhausted())
    peers_.agree([&] {
      const Deck& deck = run_.loaded.deck;
      throw DeckError(fmt::format(
          "{}: deepspeed.fp16.min_loss_scale = {}: gradients overflow even at this scale, in step "
          "{}: DeepSpeed ends a run there; lower it, or the learning rate, or use bf16",
          deck.path, deck.zero.precision.loss_scale.min_scale, step));
    });
  record_.losses.push_back(executor.loss());
  record_.norms.push_back(updated ? executor.norm() : overflow_norm);
  record_.lrs.push_back(steps.values().lr);
  record_.loss_scales.push_back(steps.values().loss_scale);
  record_.skipped.push_back(!updated);
  record_.seconds.push_back(seconds_since(start_ns));
  record_.step_times.push_back(executor.times().since(times_before));
  record_.injected_seconds.push_back(
      static_cast<double>(session_.injected_ns() - injected_before_ns) * 1e-9);
  // At least 1, so that a step counts as slow even if the thread did not get to run in it; what is
  // left of a burst in the next step does not count.
  const std::int64_t written = session_.emulated().written_bytes - written_before;
  record_.memory_traffic.push_back(
      session_.burns_memory() ? static_cast<double>(std::max<std::int64_t>(1, written)) : 0);
}

// A prediction is compared with steps in which the cores were where it assumes them. The barrier is
// there because one rank would wait for its neighbour otherwise.
void Trainer::look_at_cores() {
  if (session_.cores() == nullptr) return;
  peers_.barrier();
  const std::int64_t start_ns = monotonic_ns();
  record_.core_to_core_s.push_back(session_.cores()->measure_s());
  untimed_ns_ += monotonic_ns() - start_ns;
}

StepTrace Trainer::traced_step(std::int64_t step) {
  CommCounters& counters = session_.counters();
  StepTrace trace;
  const bool recording = counters.recording();
  counters.recording(true);
  const auto before = static_cast<std::ptrdiff_t>(counters.records().size());
  session_.executor().trace(&trace);
  plain_step(step);
  session_.executor().trace(nullptr);
  counters.recording(recording);
  trace.step = step;
  trace.collectives = {counters.records().begin() + before, counters.records().end()};
  trace.collective_names = counters.names();
  return trace;
}

// The report draws the last warm-up step: it runs the same plan as the timed steps, which a trace
// would disturb. Timed steps are traced only if the deck asks for it.
void Trainer::step_with_trace(std::int64_t step, std::int64_t timed, Progress& progress) {
  const bool first_rank = peers_.rank() == 0;
  const std::int64_t every = run_.loaded.output.deepspeed.wall_clock_every;
  const bool drawn = first_rank && step + 1 == run_.loaded.deck.run.warmup;
  const bool kept = !run_.loaded.output.trace.empty() && timed >= 0 && timed < most_traced_steps;
  const bool printed = prints_ && every > 0 && (step + 1) % every == 0;
  if (!drawn && !kept && !printed) return plain_step(step);
  StepTrace trace = traced_step(step);
  if (printed) {
    progress.done();  // clears the line that is rewritten on a terminal
    print_out(wall_clock_lines(run_.program, trace));
  }
  if (drawn) drawn_ = trace;
  if (kept) traced_.push_back(std::move(trace));
}

void Trainer::step(std::int64_t step, Progress& progress) {
  CommCounters& counters = session_.counters();
  const std::int64_t timed = step - record_.first_step - record_.warmup;
  if (timed >= 0) counters.recording(sample_.takes(timed));
  step_with_trace(step, timed, progress);
  if (timed >= 0) sample_.end_step(timed, counters.records());
}

// A cause that comes in the last step of the run is no reason to call the run stopped.
StopCause Trainer::agreed_cause(std::int64_t next_step) {
  const StopCause cause = stop_.finish();
  const RunSpec& spec = run_.loaded.deck.run;
  return next_step < spec.warmup + spec.steps ? cause : StopCause::none;
}

// Returns how many steps were done.
std::int64_t Trainer::steps(std::int64_t first, std::int64_t count, Progress& progress) {
  std::int64_t s = first;
  while (s < first + count && record_.stop == StopCause::none) {
    look_at_cores();
    if (replay_.drawn(s))
      step_to_replay(s, progress);
    else
      step(s, progress);
    if (meters_) meters_->sample();
    measure_libraries();
    record_.stop = agreed_cause(s + 1);
    progress.step(s, record_.losses.back() / static_cast<double>(run_.program.batch.accumulation),
                  record_.seconds.back());
    checkpoint(++s);
  }
  return s - first;
}

// The median of the warm-up steps but the first, in which libraries start.
Pace Trainer::pace_of_warmup() const {
  if (record_.seconds.size() < 2) return {};
  const std::vector<double> warm(record_.seconds.begin() + 1, record_.seconds.end());
  return {"the warm-up", percentile(warm, 0.5)};
}

// Whether something was to be said of the pace.
bool Trainer::announce(const Pace& pace, Progress& progress) const {
  if (record_.stop != StopCause::none) return false;
  const std::string hint = describe_pace(run_.start_class, run_.loaded.deck.run, pace);
  if (hint.empty()) return false;
  if (prints_) {
    progress.done();  // clears the line that is rewritten on a terminal
    print_out(hint + "\n");
  }
  return true;
}

// Returns how many were done. Steps may become faster after a warm-up that was slow enough, so
// that the pace is looked at again after half of them.
std::int64_t Trainer::timed_steps(bool look_again, Progress& progress) {
  const std::int64_t first = record_.first_step + record_.warmup;
  const std::int64_t half = record_.steps / 2;
  const std::int64_t done = steps(first, half, progress);
  if (look_again && done > 0) {
    const double half_s = std::accumulate(record_.seconds.end() - done, record_.seconds.end(), 0.0);
    announce({"the first " + plural(done, "timed step"), half_s / static_cast<double>(done)},
             progress);
  }
  return done + steps(first + half, record_.steps - half, progress);
}

// A device's run time loads kernels when they are first launched, into host memory that no plan
// knows: what the end of the first step finds there beside the ledger's is theirs.
void Trainer::measure_libraries() {
  if (device_is_host || record_.losses.size() != 1) return;
  const std::int64_t known =
      record_.rss_start + replay_.kept_bytes() + session_.session().memory()[Tier::host].live_bytes;
  record_.rss_libraries = std::max<std::int64_t>(0, process_memory().resident_bytes - known);
}

void Trainer::record_resident() {
  record_.rss_peak = std::max(record_.rss_peak, process_memory().peak_resident_bytes);
  if (const OutsideMemory now = outside_memory(); now.total() > record_.outside.total())
    record_.outside = now;
}

// Checkpoints map states in files into memory. Their pages then count as resident, but belong to
// the page cache, so the peak is measured without them.
// The calls are collective in libraries that know no deadline, so the guard sees that they end.
template<class Body>
void Trainer::with_files_mapped(const char* what, Body body) {
  const GuardedPhase phase(session_.guard(), what, checkpoint_limit_s(run_));
  if (!run_.program.has_files()) return body();
  record_resident();
  body();
  session_.executor().unmap_files();
  static_cast<void>(reset_peak_resident());
}

// What the figure of merit does not include. The barrier ends the step for all ranks, so that
// waiting for a slower rank does not count as `body`.
template<class Body>
void Trainer::untimed(const char* what, Body body) {
  peers_.barrier();
  const std::int64_t start_ns = monotonic_ns();
  if (meters_) meters_->pause();
  with_files_mapped(what, body);
  if (meters_) meters_->resume();
  untimed_ns_ += monotonic_ns() - start_ns;
}

void Trainer::checkpoint(std::int64_t steps_done) {
  const bool last = record_.stop != StopCause::none && checkpoints_.possible();
  if (!last && !checkpoints_.due(steps_done)) return;
  untimed("writing a checkpoint", [&] {
    enter_phase(EnergyPhase::checkpoint);
    checkpoints_.write(session_.executor(), session_.steps());
    enter_phase(std::nullopt);
  });
}

void Trainer::step_to_replay(std::int64_t s, Progress& progress) {
  untimed("keeping the states before a step", [&] { replay_.before_step(); });
  step(s, progress);
  untimed("keeping what a step gave", [&] {
    replay_.after_step(record_.losses.back(), record_.norms.back(), !record_.skipped.back());
  });
}

void Trainer::train() {
  const RunSpec& spec = run_.loaded.deck.run;
  Executor& executor = session_.executor();
  CommCounters& counters = session_.counters();
  const std::int64_t first = checkpoints_.first_step(), all = spec.warmup + spec.steps;
  record_.first_step = first;
  record_.warmup = std::max<std::int64_t>(0, spec.warmup - first);
  record_.steps = std::max<std::int64_t>(0, all - std::max(first, spec.warmup));
  const std::int64_t tokens = run_.program.batch.global * run_.loaded.deck.model.sequence;
  Progress progress(prints_, first, all, spec.warmup, tokens);

  counters.recording(run_.loaded.output.deepspeed.comms);
  record_.clocks.start = read_clocks();
  executor.watch_slots();
  session_.steps().init();
  with_files_mapped("reading a checkpoint",
                    [&] { checkpoints_.restore(executor, session_.steps()); });
  stop_.start(own_cause());  // a signal may have come during the start
  record_.stop = agreed_cause(first);
  session_.begin_congestion();
  record_.warmup = steps(first, record_.warmup, progress);
  const bool said = announce(pace_of_warmup(), progress);
  record_.slots = executor.end_watch();
  prover_.draw(record_.steps, run_.machine_file.empty() ? 1 : compared_period);
  with_files_mapped("drawing a step to make again",
                    [&] { replay_.draw(first + record_.warmup, record_.steps); });
  peers_.barrier();
  executor.reset_times();
  untimed_calls_ = counters.take_records();
  sample_ = CallSample(run_.loaded.output.deepspeed.comms ? CallSample::all_steps
                                                          : steps_to_record(run_.program, peers_));
  const std::int64_t in_flight_before_ns = counters.in_flight_ns();
  const std::int64_t matmul_before_ns = session_.matmul().matmul_ns();
  untimed_ns_ = 0;
  if (phases_) phases_->begin();
  if (meters_) meters_->begin();
  record_.clocks.begin = read_clocks();
  const EmulatedTraffic before = session_.emulated();
  const std::int64_t start_ns = monotonic_ns();
  record_.steps = timed_steps(!said, progress);
  record_.kept_bytes = replay_.kept_bytes();
  peers_.barrier();
  record_.timed_s = static_cast<double>(monotonic_ns() - start_ns - untimed_ns_) * 1e-9;
  record_.clocks.end = read_clocks();
  record_.emulated = session_.emulated();
  record_.emulated.written_bytes -= before.written_bytes;
  record_.emulated.received_bytes -= before.received_bytes;
  if (meters_) meters_->sample(true);
  executor.on_phase({});
  record_.matmul_ns = session_.matmul().matmul_ns() - matmul_before_ns;
  record_.in_flight_ns = counters.in_flight_ns() - in_flight_before_ns;
  record_.sampled_steps = sample_.steps();
  record_.times = executor.times();
  record_.link = executor.link_times();
  counters.recording(false);
  progress.done();
  session_.slow_down_no_more();
  session_.end_congestion();
}

void Trainer::finish() {
  {
    const GuardedPhase phase(session_.guard(), "finishing a checkpoint", checkpoint_limit_s(run_));
    checkpoints_.finish();
  }
  if (record_.stop == StopCause::none)
    with_files_mapped("the storage benchmark", [&] {
      checkpoints_.measure(session_.executor(), session_.steps(), [&](const std::string& line) {
        const CheckpointFigures& done = checkpoints_.figures();
        const bool early = done.timed_write_s.size() == paced_writes && done.timed_read_s.empty();
        peers_.agree([&] {
          if (!prints_) return;
          const std::string hint =
              early ? describe_write_pace(run_.class_facts, run_.start_class, done.timed_write_s)
                    : "";
          print_out(line + "\n" + hint + (hint.empty() ? "" : "\n"));
        });
      });
    });
  record_resident();
  record_.device.end = device_memory_in_use(run_.profile.ranks_per_node);
}

}  // namespace shardmark
