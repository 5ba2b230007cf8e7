// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {

namespace {

std::string as_text(const NoiseRows& rows) {
  return join(in_columns(rows), "\n") + "\n";
}

constexpr std::size_t most_listed = 16;

std::string percent(double part) {
  return part < 1 ? fmt::format("{:.3g} %", part * 100) : fmt::format("{:.0f} %", part * 100);
}

std::vector<std::string> row(const std::string& name, const NoiseGroup& g) {
  const NoiseFigures& f = g.figures;
  std::vector<std::string> cells{name, std::to_string(f.quanta), duration(f.undisturbed_s())};
  for (const double p : {0.5, 0.99, 0.999}) cells.push_back(duration(g.delays.quantile(p)));
  for (const std::string& cell :
       {duration(g.delays.largest()), fmt::format("{:.1f}", f.detours_per_s()),
        duration(f.mean_detour_s()), percent(f.lost_part())})
    cells.push_back(cell);
  return cells;
}

// All ranks if there are few, and otherwise those that lost most.
std::vector<const NoiseGroup*> listed_ranks(const Noise& noise) {
  std::vector<const NoiseGroup*> ranks;
  for (const NoiseGroup& r : noise.ranks) ranks.push_back(&r);
  if (ranks.size() <= most_listed) return ranks;
  std::ranges::stable_sort(ranks, [](const NoiseGroup* a, const NoiseGroup* b) {
    return a->figures.lost_part() > b->figures.lost_part();
  });
  ranks.resize(most_listed);
  return ranks;
}

}  // namespace

std::string noise_text(const Noise& noise) {
  std::string text = fmt::format(
      "noise of {} on {}: quanta of {} us ({} iterations), {} of work\n",
      plural(noise.all.ranks, "rank"), plural(std::ssize(noise.hosts), "host"),
      noise.arguments.quantum_us, noise.iterations, clock_time(noise.all.figures.work_s));
  text += "\nquanta without communication, and their delays\n" + as_text(quanta_rows(noise));
  text += "\nregular interruptions\n";
  for (const std::string& sentence : period_sentences(noise)) text += "  " + sentence + "\n";
  text += fmt::format("\n{} rounds of a quantum and a barrier (a barrier alone: {})\n",
                      noise.loop.rounds, duration(noise.loop.barrier_s)) +
          as_text(loop_rows(noise));
  if (const std::string spread = spread_sentence(noise); !spread.empty())
    text += "  " + spread + "\n";
  return text +
         "\nexpected delay of the slowest rank in a round, if each rank is like one of these\n" +
         as_text(scale_rows(noise));
}

NoiseRows quanta_rows(const Noise& noise) {
  const std::vector<const NoiseGroup*> ranks = listed_ranks(noise);
  NoiseRows rows{{ranks.size() < noise.ranks.size()
                      ? fmt::format("the {} ranks that lost most", ranks.size())
                      : "",
                  "quanta", "fastest", "p50", "p99", "p99.9", "max", "detours/s", "mean", "lost"}};
  for (const NoiseGroup* r : ranks) rows.push_back(row(fmt::format("rank {}", r->rank), *r));
  for (std::size_t i = 0; i < std::min(noise.hosts.size(), most_listed); ++i)
    rows.push_back(row(noise.hosts[i].host, noise.hosts[i]));
  const bool more = noise.hosts.size() > most_listed;
  rows.push_back(
      row(more ? fmt::format("all, and {} more hosts", noise.hosts.size() - most_listed) : "all",
          noise.all));
  return rows;
}

NoiseRows loop_rows(const Noise& noise) {
  const SynchronizedLoop& l = noise.loop;
  const auto line = [](const char* what, double measured, double predicted) {
    return std::vector<std::string>{what, duration(measured), duration(predicted),
                                    relation(predicted, measured)};
  };
  return {{"mean", "measured", "predicted", ""},
          line("quantum of the slowest rank", l.slowest_s, l.predicted_slowest_s),
          line("round of quantum and barrier", l.round_s, l.predicted_round_s)};
}

NoiseRows scale_rows(const Noise& noise) {
  NoiseRows rows{{"ranks", "as seen", "with a tail", "longer by", "beyond what was seen"}};
  for (const NoiseAtScale& s : noise.at_scale)
    rows.push_back({std::to_string(s.ranks), duration(s.delay_s),
                    s.tail_s ? duration(*s.tail_s) : "–", percent(s.longer),
                    percent(s.beyond_seen)});
  return rows;
}

std::vector<std::string> period_sentences(const Noise& noise) {
  std::vector<std::string> sentences;
  std::size_t found = 0;
  for (const NoiseGroup& r : noise.ranks)
    for (const Period& p : r.periods)
      if (++found <= most_listed)
        sentences.push_back(
            fmt::format("rank {}: each {}, at {:.0f} % of these times, {} each: {} "
                        "of the time",
                        r.rank, duration(p.period_s), p.hit_part * 100, duration(p.detour_s),
                        percent(p.lost_part)));
  if (found > most_listed) sentences.push_back(fmt::format("and {} more", found - most_listed));
  if (sentences.empty()) sentences.emplace_back("none found");
  return sentences;
}

std::string spread_sentence(const Noise& noise) {
  if (noise.rank_spread <= 0) return {};
  return fmt::format("ranks differ by {} (sd / mean) in {} of the same work",
                     percent(noise.rank_spread), duration(noise.block_s));
}

}  // namespace shardmark
