// SPDX-License-Identifier: Apache-2.0
// `shardmark sweep`: takes the points of a grid one after another, each as `run` or `plan` would,
// stores them as they finish, and writes one table.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include <core/plan/build/legal_program.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/folder_lock.hpp>
#include <io/files/hash.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/arguments_error.hpp>
#include <miniapp/execute/scoped_timer.hpp>
#include <miniapp/provenance/failure_text.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/budgets.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/fit_budget.hpp>
#include <miniapp/run/heap.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/tools/sweep/html/sweep_page.hpp>
#include <miniapp/tools/sweep/store.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {
namespace {

// Identifies what all points of a sweep share.
std::string identity(const SweepArguments& a) {
  const std::string how = a.plan
                              ? fmt::format("plan, {} per node", plural(a.ranks_per_node, "rank"))
                              : std::string("run");
  std::string all = fmt::format("{}\n{}\n{}", version(), how, deck_text(a.deck, a.sets));
  if (!a.machine.empty()) all += "\n" + machine_text(read_machine_file(a.machine));
  return hash_hex(all);
}

std::vector<std::string> sets_of(const SweepArguments& a, const GridPoint& at) {
  std::vector<std::string> sets = a.sets;
  for (std::string& set : at.sets()) sets.push_back(std::move(set));
  return sets;
}

// The state of a sweep in one process: which points there are, and which are done.
class Sweeper {
 public:
  Sweeper(const SweepArguments& a, std::vector<int> ranks)
      : arguments_(a),
        axes_(parse_axes(a.vary)),
        lock_(a.out, "another sweep", "--out", output_remedy),
        store_(a.out, identity(a)),
        ranks_(std::move(ranks)) {
    own_ = points_of(axes_, ranks_);
    for (const int n : store_.other_ranks(axes_, ranks_)) ranks_.push_back(n);
    std::sort(ranks_.begin(), ranks_.end());
    all_ = points_of(axes_, ranks_);
  }

  /// The points of this call, done or not.
  const std::vector<GridPoint>& points() const { return own_; }
  bool done(const GridPoint& at) const { return store_.find(at) != nullptr; }
  std::string folder_of(const GridPoint& at) const { return store_.folder_of(at); }

  void begin() const {
    print_out(fmt::format("Sweep: {}, {} to {}\n", printable(arguments_.deck),
                          plural(static_cast<std::int64_t>(own_.size()), "point"),
                          arguments_.plan ? "plan" : "run"));
    print_out(assumptions());
    for (const std::string& line : store_.notes(all_)) print_out("  " + printable(line) + "\n");
  }

  // Of the first point. A point whose deck cannot be read is reported where it is planned or run.
  std::string assumptions() const {
    try {
      const GridPoint& at = own_.front();
      return note_lines(
          read_deck(arguments_.deck, sets_of(arguments_, at), DeckUse::plan, at.ranks).deck);
    } catch (const Error&) {
      return "";
    }
  }

  void keep(std::size_t i, const SweepPoint& p) {
    store_.keep(p);
    if (seconds_since(table_ns_) > 1) write_table();  // planning is faster than writing
    if (arguments_.plan && p.state == SweepPoint::State::planned) return;  // the table follows
    std::string line =
        fmt::format("[{}/{}] {} on {}: {}", i + 1, own_.size(), join(p.at.sets(), " "),
                    plural(p.at.ranks, "rank"), to_string(p.state));
    if (p.run)
      line += fmt::format(", {:.0f} tokens/s, {:.1f} s", p.run->tokens_per_s, p.run->wall_s);
    if (!p.reason.empty()) line += ": " + p.reason;
    print_out(printable(line) + "\n");
  }

  Sweep table() const {
    Sweep s{arguments_.deck,
            name_of_file(arguments_.deck),
            arguments_.sets,
            arguments_.plan,
            axes_,
            ranks_,
            {},
            {},
            all_.size()};
    for (const GridPoint& at : all_)
      if (const SweepPoint* p = store_.find(at)) {
        s.points.push_back(*p);
        s.points.back().at = at;  // with its values in the order of these axes
        s.folders.push_back(store_.name_of(at));
      }
    return s;
  }

  ExitStatus end() {
    write_table();
    const Sweep s = table();
    print_out("\n" + sweep_text(s) +
              fmt::format("\n{}; table in {}/sweep.csv, page in {}/sweep.html\n", sweep_summary(s),
                          printable(arguments_.out), printable(arguments_.out)));
    return sweep_status(s);
  }

 private:
  void write_table() {
    table_ns_ = monotonic_ns();
    const Sweep s = table();
    replace_file(arguments_.out, "sweep.csv", sweep_csv(s), output_remedy);
    replace_file(arguments_.out, "sweep.html", sweep_html(s), output_remedy);
  }

  const SweepArguments& arguments_;
  std::vector<Axis> axes_;
  FolderLock lock_;  // before the store reads, since another sweep may be writing
  PointStore store_;
  std::vector<int> ranks_;
  std::vector<GridPoint> own_, all_;
  std::int64_t table_ns_ = 0;
};

// As `predict` takes them, so that both predict the same time.
int ranks_of_a_node(const std::string& machine_file) {
  if (machine_file.empty()) return 1;
  return std::max(1, read_machine_file(machine_file).node.ranks);
}

void plan_point(const SweepArguments& a, SweepPoint& point) {
  Deck deck = read_deck(a.deck, sets_of(a, point.at), DeckUse::plan, point.at.ranks).deck;
  const int ranks = point.at.ranks;
  const Batch batch = infer_batch(deck.zero, ranks, deck.path);
  Profile profile;
  profile.ranks_per_node = std::min(ranks, a.ranks_per_node);
  apply_fit(deck, batch, ranks, profile, deck_fit_budget(deck));
  const Program program = build_legal_program(deck, batch, ranks, 0, profile);
  if (a.machine.empty()) {
    point.plan = plan_figures(deck, program, deck_budgets(deck, a.ranks_per_node));
    return;
  }
  const Machine machine = read_machine_file(a.machine);
  const MemoryFit memory = memory_fit(deck, program, machine, profile.ranks_per_node);
  point.plan = plan_figures(deck, program, memory.budgets);
  if (memory.fits()) {
    point.predicted =
        predicted_figures(predict_program(deck, program, machine, profile.ranks_per_node));
  } else {
    point.status = ExitStatus::memory;
    point.reason = memory.refusal;
  }
}

ExitStatus plan_points(const SweepArguments& a) {
  Sweeper sweeper(a, parse_ranks(a.ranks));
  sweeper.begin();
  for (std::size_t i = 0; i < sweeper.points().size(); ++i) {
    SweepPoint point{.at = sweeper.points()[i]};
    if (sweeper.done(point.at)) continue;
    try {
      plan_point(a, point);
    } catch (const Error& e) {
      point.state = SweepPoint::State::refused;
      point.status = e.status();
      point.reason = failure_text({e.status(), e.what()});
    }
    sweeper.keep(i, point);
  }
  return sweeper.end();
}

// A point must not resume from a checkpoint of another one.
void refuse_resuming(const SweepArguments& a, const GridPoint& at) {
  const Deck deck = load_deck(a.deck, sets_of(a, at));
  if (deck.checkpoint.resume != "none")
    throw DeckError(fmt::format(
        "{}: checkpoint.resume = \"{}\": the points of a sweep would resume from one another: give "
        "--set checkpoint.resume=none",
        deck.path, deck.checkpoint.resume));
}

// Collective. All ranks know if a point is refused; only rank 0 uses the reason.
SweepPoint run_point(const SweepArguments& a, const GridPoint& at, const std::string& folder,
                     const World& world) {
  SweepPoint point{.at = at};
  const std::int64_t start_ns = monotonic_ns();
  try {
    world.peers.agree([&] { refuse_resuming(a, at); });
    const RunOutcome run = run_deck({a.deck, sets_of(a, at), folder, true, a.machine}, world);
    point.status = run.status;
    point.stop = run.result.stop;
    point.state = run.result.valid() ? SweepPoint::State::valid : SweepPoint::State::invalid;
    point.reason = run.result.invalid_reasons();
    Budgets budgets;
    for (const Tier t : all_values<Tier>) budgets[t] = run.result.tiers[t].budget;
    point.plan = plan_figures(run.deck, run.program, budgets);
    point.run = run_figures(run.deck, run.result, seconds_since(start_ns));
    if (run.result.prediction) point.predicted = predicted_figures(run.result.prediction->point);
  } catch (const AgreedError& e) {
    if (e.status() == ExitStatus::output || e.status() == ExitStatus::comm) throw;
    point.state = SweepPoint::State::refused;
    point.status = e.status();
    for (const std::string& what : world.peers.gather(std::string(e.what())))
      if (point.reason.empty()) point.reason = failure_text({e.status(), what});
  }
  give_back_freed_memory();
  return point;
}

// A signal asks the whole sweep to stop. Its time limit stops a point alone, which is then INVALID.
bool stops_sweep(const SweepPoint& point) {
  return point.status == ExitStatus::stopped && point.stop != StopCause::time_limit;
}

// The point that was running is not kept, so that the next call runs it again.
ExitStatus stop_sweep(Peers& peers, const SweepPoint& point) {
  peers.agree([&] {
    if (peers.rank() == 0)
      print_out(fmt::format(
          "\nThe sweep was stopped by {}. Start it again to go on: the points that are done are "
          "kept.\n",
          to_string(point.stop)));
  });
  return ExitStatus::stopped;
}

ExitStatus run_points(const SweepArguments& a, const World& world) {
  Peers& peers = world.peers;
  std::optional<Sweeper> sweeper;  // only on rank 0, so that other nodes need not see the folder
  std::vector<GridPoint> points;
  std::vector<char> todo;
  peers.agree([&] {
    points = points_of(parse_axes(a.vary), {peers.size()});
    todo.resize(points.size());
    if (peers.rank() != 0) return;
    sweeper.emplace(a, std::vector<int>{peers.size()});
    sweeper->begin();
    for (std::size_t i = 0; i < points.size(); ++i) todo[i] = sweeper->done(points[i]) ? 0 : 1;
  });
  todo = peers.gather(todo);  // those of rank 0 come first
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (todo[i] == 0) continue;
    const std::string folder = sweeper ? sweeper->folder_of(points[i]) : std::string("unused");
    const SweepPoint point = run_point(a, points[i], folder, world);
    if (stops_sweep(point)) return stop_sweep(peers, point);
    peers.agree([&] {
      if (sweeper) sweeper->keep(i, point);
    });
  }
  ExitStatus status = ExitStatus::valid;
  peers.agree([&] {
    if (sweeper) status = sweeper->end();
  });
  return peers.gather(status)[0];
}

}  // namespace

ExitStatus sweep_command(const SweepArguments& a) {
  if (!a.plan && !a.ranks.empty())
    throw DeckError(
        "--ranks " + a.ranks +
        ": only --plan takes ranks: a sweep that runs has the ranks that mpiexec starts");
  if (a.plan && a.ranks.empty())
    throw DeckError(
        "--plan: the number of ranks is missing: give --ranks 8, or several: --ranks 1,2,4,8");
  if (a.out.empty()) throw DeckError("--out: is empty: give a folder");
  if (!a.plan) return launch([&](const World& world) { return run_points(a, world); });
  if (!speaks_for_launch()) return ExitStatus::valid;  // one process is enough
  SweepArguments planned = a;
  if (a.ranks_per_node == 0) planned.ranks_per_node = ranks_of_a_node(a.machine);
  return plan_points(planned);
}

}  // namespace shardmark
