// SPDX-License-Identifier: Apache-2.0
// `shardmark sweep` without --plan: the points are run one after another, each as `run` would.
#include <optional>

#include <fmt/core.h>

#include <io/deck/deck_reader.hpp>
#include <miniapp/commands/sweeper.hpp>
#include <miniapp/execute/scoped_timer.hpp>
#include <miniapp/provenance/failure_text.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/heap.hpp>
#include <miniapp/run/launch.hpp>

namespace shardmark {
namespace {

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

ExitStatus run_sweep(const SweepArguments& a) {
  return launch([&](const World& world) { return run_points(a, world); });
}

}  // namespace shardmark
