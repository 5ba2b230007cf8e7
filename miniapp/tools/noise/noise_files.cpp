// SPDX-License-Identifier: Apache-2.0
// The results of `noise` as JSON and as a page.
#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {

namespace {

using namespace html;

constexpr double chart_height = 360;
constexpr double shortest_shown_s = 1e-8;
constexpr std::size_t most_curves = 6, most_ranks = 400;

// Powers of ten over the delays of all ranks.
ChartAxis delays_axis(const Noise& noise, const char* unit) {
  const auto decade = [&](double seconds, double (*whole)(double)) {
    return std::pow(10, whole(std::log10(std::max(seconds, shortest_shown_s))));
  };
  const double low = decade(noise.all.delays.quantile(0.01), std::floor);
  const double high = decade(noise.all.delays.largest(), std::ceil);
  return {
      .unit = unit, .log_base = 10, .low = low, .high = std::max(10 * low, high), .text = duration};
}

// Over each delay, one in how many quanta is as long or longer. Delays below `least_s` are drawn
// there.
std::vector<Datum> rarity(const Distribution& delays, double least_s) {
  std::vector<Datum> line;
  const auto all = static_cast<double>(delays.count());
  std::int64_t below = 0;
  for (const Distribution::Value& v : delays.values) {
    line.push_back({std::max(v.s, least_s), all / (all - static_cast<double>(below))});
    below += v.count;
  }
  return line;
}

// A curve for each group, as far as there are colours.
std::string rarity_chart(const Noise& noise, const std::vector<const NoiseGroup*>& groups,
                         const std::string& title) {
  Chart chart{title,
              delays_axis(noise, "delay of a quantum"),
              {.unit = "one of so many quanta is as long or longer",
               .log_base = 10,
               .low = 1,
               .high = std::max(10.0, static_cast<double>(noise.all.figures.quanta))},
              chart_height};
  for (const NoiseGroup* g : groups)
    chart.curves.push_back({fmt::format("series{}", chart.curves.size()),
                            g->rank < 0 ? g->host : fmt::format("rank {} ({})", g->rank, g->host),
                            rarity(g->delays, *chart.x.low), Curve::Form::steps});
  return to_html(chart);
}

// All of them if there are colours enough, and otherwise some from the one that lost least to the
// one that lost most.
std::vector<const NoiseGroup*> chosen(const std::vector<NoiseGroup>& groups) {
  std::vector<const NoiseGroup*> all, some;
  for (const NoiseGroup& g : groups) all.push_back(&g);
  if (all.size() <= most_curves) return all;
  std::ranges::stable_sort(all, [](const NoiseGroup* a, const NoiseGroup* b) {
    return a->figures.lost_part() < b->figures.lost_part();
  });
  for (std::size_t i = 0; i < most_curves; ++i)
    some.push_back(all[i * (all.size() - 1) / (most_curves - 1)]);
  return some;
}

// Percentiles of each rank: a column of dots over its number.
std::string rank_chart(const Noise& noise) {
  const auto ranks = noise.ranks.size();
  Chart chart{"Percentiles of the delays by rank",
              {.unit = "rank", .low = -0.5, .high = static_cast<double>(ranks) - 0.5, .closest = 1},
              delays_axis(noise, "delay"),
              chart_height};
  constexpr struct {
    double p;
    const char *css, *name;
  } marks[] = {{0.5, "series0", "half of the quanta"},
               {0.99, "series2", "99 of 100"},
               {0.999, "series1", "999 of 1000"},
               {1, "lost", "the longest"}};
  const std::size_t stride = (ranks + most_ranks - 1) / most_ranks;
  for (const auto& m : marks) {
    Curve& curve = chart.curves.emplace_back(Curve{m.css, m.name, {}, Curve::Form::dots});
    for (std::size_t r = 0; r < ranks; r += stride) {
      const NoiseGroup& g = noise.ranks[r];
      const double s = g.delays.quantile(m.p);
      curve.data.push_back({static_cast<double>(r), std::max(s, *chart.y.low),
                            fmt::format("rank {}, {}: {}", g.rank, g.host, duration(s))});
    }
  }
  return to_html(chart);
}

using Object = nlohmann::ordered_json;

double us(double seconds) {
  return seconds * 1e6;
}

Object group(const NoiseGroup& g) {
  Object o = Object::object();
  if (g.rank >= 0) o["rank"] = g.rank;
  if (!g.host.empty()) o["host"] = g.host;
  if (g.rank < 0) o["ranks"] = g.ranks;
  const NoiseFigures& f = g.figures;
  o["quanta"] = f.quanta;
  o["fastest_us"] = us(f.undisturbed_s());
  o["work_s"] = f.work_s;
  o["lost_s"] = f.lost_s;
  o["lost_part"] = f.lost_part();
  o["detours"] = f.detours;
  o["detours_per_s"] = f.detours_per_s();
  o["mean_detour_us"] = us(f.mean_detour_s());
  o["delay_us"] = {{"mean", us(g.delays.mean())},           {"p50", us(g.delays.quantile(0.5))},
                   {"p90", us(g.delays.quantile(0.9))},     {"p99", us(g.delays.quantile(0.99))},
                   {"p99.9", us(g.delays.quantile(0.999))}, {"max", us(g.delays.largest())}};
  if (g.rank < 0) return o;
  o["periods"] = Object::array();
  for (const Period& p : g.periods)
    o["periods"].push_back({{"period_us", us(p.period_s)},
                            {"detour_us", us(p.detour_s)},
                            {"hit_part", p.hit_part},
                            {"lost_part", p.lost_part}});
  return o;
}

Object groups(const std::vector<NoiseGroup>& list) {
  Object all = Object::array();
  for (const NoiseGroup& g : list) all.push_back(group(g));
  return all;
}

}  // namespace

std::string noise_html(const Noise& n) {
  std::string page =
      fmt::format("<header><h1>Noise of {} on {}</h1>\n<p>Quanta of {} µs, {}.</p>\n</header>\n",
                  plural(n.all.ranks, "rank"), plural(std::ssize(n.hosts), "host"),
                  n.arguments.quantum_us, escape(n.date));
  page += "<h2>Delays by host</h2>\n" +
          rarity_chart(n, chosen(n.hosts), "How rare delays are, by host");
  page += "<h2>Delays by rank</h2>\n" +
          rarity_chart(n, chosen(n.ranks), "How rare delays are, by rank") + rank_chart(n);
  page += "<h2>Quanta without communication, and their delays</h2>\n" + text_table(quanta_rows(n));
  page += "<h2>Regular interruptions</h2>\n" + list(period_sentences(n));
  page += fmt::format(
              "<h2>Rounds of a quantum and a barrier</h2>\n<p>{}; a barrier alone "
              "takes {}.</p>\n",
              plural(n.loop.rounds, "round"), duration(n.loop.barrier_s)) +
          text_table(loop_rows(n));
  if (const std::string spread = spread_sentence(n); !spread.empty())
    page += "<p>" + escape(spread) + "</p>\n";
  page +=
      "<h2>Expected delay of the slowest rank in a round</h2>\n<p>If each rank is like one of "
      "these.</p>\n" +
      text_table(scale_rows(n));
  return document("Noise: ShardMark", page);
}

std::string noise_json(const Noise& n) {
  Object o{{"program", std::string("shardmark ") + version()},
           {"date", n.date},
           {"seconds", n.seconds},
           {"quantum_us", n.arguments.quantum_us},
           {"iterations", n.iterations}};
  o["ranks"] = groups(n.ranks);
  o["hosts"] = groups(n.hosts);
  o["all"] = group(n.all);
  o["rank_relative_sd"] = n.rank_spread;
  o["block_us"] = us(n.block_s);
  const SynchronizedLoop& l = n.loop;
  o["synchronized"] = {
      {"rounds", l.rounds},
      {"barrier_us", us(l.barrier_s)},
      {"slowest_us", {{"measured", us(l.slowest_s)}, {"predicted", us(l.predicted_slowest_s)}}},
      {"round_us", {{"measured", us(l.round_s)}, {"predicted", us(l.predicted_round_s)}}}};
  if (n.tail)
    o["tail"] = {{"from_us", us(n.tail->from_s)},
                 {"part", n.tail->part},
                 {"shape", n.tail->shape},
                 {"scale_us", us(n.tail->scale_s)},
                 {"samples", n.tail->samples}};
  o["at_scale"] = Object::array();
  for (const NoiseAtScale& s : n.at_scale) {
    Object at{{"ranks", s.ranks}, {"delay_us", us(s.delay_s)}};
    if (s.tail_s) at["tail_delay_us"] = us(*s.tail_s);
    at["longer_part"] = s.longer;
    at["beyond_seen"] = s.beyond_seen;
    o["at_scale"].push_back(at);
  }
  return o.dump(2) + "\n";
}

}  // namespace shardmark
