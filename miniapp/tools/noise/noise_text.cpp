// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/relation.hpp>
#include <core/text.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

constexpr std::size_t most_listed = 16;

std::string percent(double part) {
  return part < 1 ? fmt::format("{:.3g} %", part * 100) : fmt::format("{:.0f} %", part * 100);
}

std::string row(const std::string& name, const NoiseGroup& g) {
  const NoiseFigures& f = g.figures;
  std::string text =
      fmt::format("  {:<16} {:>9} {:>8}", name, f.quanta, duration(f.undisturbed_s()));
  for (const double p : {0.5, 0.99, 0.999})
    text += fmt::format(" {:>8}", duration(g.delays.quantile(p)));
  return text + fmt::format(" {:>8} {:>9.1f} {:>8} {:>8}\n", duration(g.delays.largest()),
                            f.detours_per_s(), duration(f.mean_detour_s()), percent(f.lost_part()));
}

// All ranks if there are few, and otherwise those that lost most.
std::string rank_rows(const Noise& noise) {
  std::vector<const NoiseGroup*> ranks;
  for (const NoiseGroup& r : noise.ranks) ranks.push_back(&r);
  std::string text;
  if (ranks.size() > most_listed) {
    std::stable_sort(ranks.begin(), ranks.end(), [](const NoiseGroup* a, const NoiseGroup* b) {
      return a->figures.lost_part() > b->figures.lost_part();
    });
    ranks.resize(most_listed);
    text = fmt::format("  the {} ranks that lost most:\n", most_listed);
  }
  for (const NoiseGroup* r : ranks) text += row(fmt::format("rank {}", r->rank), *r);
  return text;
}

std::string host_rows(const Noise& noise) {
  std::string text;
  for (std::size_t i = 0; i < std::min(noise.hosts.size(), most_listed); ++i)
    text += row(noise.hosts[i].host, noise.hosts[i]);
  if (noise.hosts.size() > most_listed)
    text += fmt::format("  and {} more hosts\n", noise.hosts.size() - most_listed);
  return text + row("all", noise.all);
}

std::string period_lines(const Noise& noise) {
  std::string text;
  std::size_t rows = 0;
  for (const NoiseGroup& r : noise.ranks)
    for (const Period& p : r.periods)
      if (++rows <= most_listed)
        text += fmt::format(
            "  rank {}: each {}, at {:.0f} % of these times, {} each: {} of the time\n", r.rank,
            duration(p.period_s), p.hit_part * 100, duration(p.detour_s), percent(p.lost_part));
  if (rows > most_listed) text += fmt::format("  and {} more\n", rows - most_listed);
  return text.empty() ? "  none found\n" : text;
}

std::string loop_lines(const SynchronizedLoop& l) {
  const auto line = [](const char* what, double measured, double predicted) {
    return fmt::format("  {:<38} measured {:>8}, predicted {:>8} ({})\n", what, duration(measured),
                       duration(predicted), relation(predicted, measured));
  };
  return line("quantum of the slowest rank, mean", l.slowest_s, l.predicted_slowest_s) +
         line("round of quantum and barrier, mean", l.round_s, l.predicted_round_s);
}

std::string scale_lines(const Noise& noise) {
  std::string text = fmt::format("  {:>6} {:>14} {:>14} {:>12} {:>22}\n", "ranks", "as seen",
                                 "with a tail", "longer by", "beyond what was seen");
  for (const NoiseAtScale& s : noise.at_scale)
    text += fmt::format("  {:>6} {:>14} {:>14} {:>12} {:>22}\n", s.ranks, duration(s.delay_s),
                        s.tail_s ? duration(*s.tail_s) : "-", percent(s.longer),
                        percent(s.beyond_seen));
  return text;
}

}  // namespace

std::string noise_text(const Noise& noise) {
  std::string text = fmt::format(
      "noise of {} on {}: quanta of {} us ({} iterations), {} of work\n",
      plural(noise.all.ranks, "rank"), plural(std::ssize(noise.hosts), "host"),
      noise.arguments.quantum_us, noise.iterations, clock_time(noise.all.figures.work_s));
  text += fmt::format(
      "\nquanta without communication, and their delays\n  {:<16} {:>9} {:>8} {:>8} "
      "{:>8} {:>8} {:>8} {:>9} {:>8} {:>8}\n",
      "", "quanta", "fastest", "p50", "p99", "p99.9", "max", "detours/s", "mean", "lost");
  text += rank_rows(noise) + host_rows(noise);
  text += "\nregular interruptions\n" + period_lines(noise);
  text += fmt::format("\n{} rounds of a quantum and a barrier (a barrier alone: {})\n",
                      noise.loop.rounds, duration(noise.loop.barrier_s)) +
          loop_lines(noise.loop);
  if (noise.rank_spread > 0)
    text += fmt::format("  ranks differ by {} (sd / mean) in {} of the same work\n",
                        percent(noise.rank_spread), duration(noise.block_s));
  return text +
         "\nexpected delay of the slowest rank in a round, if each rank is like one of these\n" +
         scale_lines(noise);
}

}  // namespace shardmark
