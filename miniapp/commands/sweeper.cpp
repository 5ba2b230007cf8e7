// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/deck/deck_findings.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/hash.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/sweeper.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark {
namespace {

// Identifies what all points of a sweep share.
std::string identity_of(const SweepArguments& a) {
  const std::string how = a.plan
                              ? fmt::format("plan, {} per node", plural(a.ranks_per_node, "rank"))
                              : std::string("run");
  std::string all = fmt::format("{}\n{}\n{}", version(), how, deck_text(a.deck, a.sets));
  if (!a.machine.empty()) all += "\n" + machine_text(read_machine_file(a.machine));
  return hash_hex(all);
}

}  // namespace

std::vector<std::string> sets_of(const SweepArguments& a, const GridPoint& at) {
  std::vector<std::string> sets = a.sets;
  for (std::string& set : at.sets()) sets.push_back(std::move(set));
  return sets;
}

Sweeper::Sweeper(const SweepArguments& a, std::vector<int> ranks)
    : arguments_(a),
      axes_(parse_axes(a.vary)),
      lock_(a.out, "another sweep", "--out", output_remedy),
      store_(a.out, identity_of(a)),
      ranks_(std::move(ranks)) {
  own_ = points_of(axes_, ranks_);
  for (const int n : store_.other_ranks(axes_, ranks_)) ranks_.push_back(n);
  std::ranges::sort(ranks_);
  all_ = points_of(axes_, ranks_);
}

void Sweeper::begin() const {
  print_out(fmt::format("Sweep: {}, {} to {}\n", printable(arguments_.deck),
                        plural(std::ssize(own_), "point"), arguments_.plan ? "plan" : "run"));
  print_out(assumptions());
  for (const std::string& line : store_.notes(all_)) print_out("  " + printable(line) + "\n");
}

// Returns the notes on the deck of the first point. If that deck cannot be read, the point is
// reported where it is planned or run.
std::string Sweeper::assumptions() const {
  try {
    const GridPoint& at = own_.front();
    return note_lines(
        read_deck(arguments_.deck, sets_of(arguments_, at), DeckUse::plan, at.ranks).deck);
  } catch (const Error&) {
    return "";
  }
}

void Sweeper::keep(std::size_t i, const SweepPoint& p) {
  store_.keep(p);
  if (seconds_since(table_ns_) > 1) write_table();  // planning is faster than writing
  if (arguments_.plan && p.state == SweepPoint::State::planned) return;  // the table follows
  std::string line = fmt::format("[{}/{}] {} on {}: {}", i + 1, own_.size(), join(p.at.sets(), " "),
                                 plural(p.at.ranks, "rank"), to_string(p.state));
  if (p.run) line += fmt::format(", {:.0f} tokens/s, {:.1f} s", p.run->tokens_per_s, p.run->wall_s);
  if (!p.reason.empty()) line += ": " + p.reason;
  print_out(printable(line) + "\n");
}

Sweep Sweeper::table() const {
  Sweep s{.deck_path = arguments_.deck,
          .deck_name = name_of_file(arguments_.deck),
          .sets = arguments_.sets,
          .planned = arguments_.plan,
          .axes = axes_,
          .ranks = ranks_,
          .size = all_.size()};
  for (const GridPoint& at : all_)
    if (const SweepPoint* p = store_.find(at)) {
      s.points.push_back(*p);
      s.points.back().at = at;  // with its values in the order of these axes
      s.folders.push_back(store_.name_of(at));
    }
  return s;
}

ExitStatus Sweeper::end() {
  write_table();
  const Sweep s = table();
  print_out("\n" + sweep_text(s) +
            fmt::format("\n{}; table in {}/sweep.csv, page in {}/sweep.html\n", sweep_summary(s),
                        printable(arguments_.out), printable(arguments_.out)));
  return sweep_status(s);
}

void Sweeper::write_table() {
  table_ns_ = monotonic_ns();
  const Sweep s = table();
  replace_file(arguments_.out, "sweep.csv", sweep_csv(s), output_remedy);
  replace_file(arguments_.out, "sweep.html", sweep_html(s), output_remedy);
}

}  // namespace shardmark
