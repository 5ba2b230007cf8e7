// SPDX-License-Identifier: Apache-2.0
// `shardmark sweep`: takes the points of a grid one after another, each as `run` or `plan` would,
// stores them as they finish, and writes one table.
#include <algorithm>

#include <core/plan/build/legal_program.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/command_line.hpp>
#include <miniapp/commands/sweeper.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/run/budgets.hpp>

namespace shardmark {
namespace {

void plan_point(const SweepArguments& a, SweepPoint& point) {
  Deck deck = read_deck(a.deck, sets_of(a, point.at), DeckUse::plan, point.at.ranks).deck;
  const int ranks = point.at.ranks;
  const Batch batch = infer_batch(deck, ranks);
  const Profile profile{.ranks_per_node = std::min(ranks, a.ranks_per_node)};
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
  if (!a.plan) return run_sweep(a);
  if (!speaks_for_launch()) return ExitStatus::valid;  // one process is enough
  SweepArguments planned = a;
  const Machine machine = a.machine.empty() ? Machine{} : read_machine_file(a.machine);
  planned.ranks_per_node = ranks_of_a_node(a.ranks_per_node, machine);
  return plan_points(planned);
}

}  // namespace shardmark
