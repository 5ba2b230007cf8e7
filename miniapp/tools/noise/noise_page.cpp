// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

using namespace html;

constexpr double chart_height = 360;
constexpr double shortest_shown_s = 1e-8;
constexpr std::size_t most_curves = 6, most_ranks = 400;
constexpr std::string_view colours[most_curves] = {"series0", "series1", "series2",
                                                   "series3", "series4", "series5"};

double exponent(double seconds) {
  return std::log10(std::max(seconds, shortest_shown_s));
}

// Powers of ten over the delays of all ranks.
struct Decades {
  explicit Decades(const Noise& noise)
      : low(std::floor(exponent(noise.all.delays.quantile(0.01)))),
        high(std::max(low + 1, std::ceil(exponent(noise.all.delays.largest())))) {
    for (double d = low; d <= high; ++d) ticks.push_back({d, duration(std::pow(10, d))});
  }
  double low, high;
  std::vector<Tick> ticks;
};

// Over each delay, one in how many quanta is longer, as an exponent of ten.
std::vector<Point> rarity(const Distribution& delays, const Frame& f) {
  std::vector<Point> line;
  const auto all = static_cast<double>(delays.count());
  std::int64_t below = 0;
  for (const Distribution::Value& v : delays.values) {
    const double longer = 1 - static_cast<double>(below) / all;  // as long or longer
    line.push_back({f.x(exponent(v.s)), f.y(-std::log10(longer))});
    below += v.count;
  }
  return thinned(line, 400);
}

// A curve for each group, as far as there are colours.
std::string rarity_chart(const Noise& noise, const std::vector<const NoiseGroup*>& groups,
                         const std::string& title) {
  const Decades decades(noise);
  const double rarest = std::ceil(std::log10(static_cast<double>(noise.all.figures.quanta)));
  Svg svg(chart_width, chart_height, title);
  const Frame f = draw_frame(svg, chart_height, decades.low, decades.high, 0, std::max(1.0, rarest),
                             decades.ticks, "delay of a quantum",
                             "x: one quantum in 10^x is as long or longer");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    svg.curve(rarity(groups[i]->delays, f), colours[i], true);
    const NoiseGroup& g = *groups[i];
    names.push_back(g.rank < 0 ? g.host : fmt::format("rank {} ({})", g.rank, g.host));
  }
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < names.size(); ++i) entries.push_back({colours[i], names[i]});
  return svg.str() + legend(entries);
}

// All of them if there are colours enough, and otherwise some from the one that lost least to the
// one that lost most.
std::vector<const NoiseGroup*> chosen(const std::vector<NoiseGroup>& groups) {
  std::vector<const NoiseGroup*> all, some;
  for (const NoiseGroup& g : groups) all.push_back(&g);
  if (all.size() <= most_curves) return all;
  std::stable_sort(all.begin(), all.end(), [](const NoiseGroup* a, const NoiseGroup* b) {
    return a->figures.lost_part() < b->figures.lost_part();
  });
  for (std::size_t i = 0; i < most_curves; ++i)
    some.push_back(all[i * (all.size() - 1) / (most_curves - 1)]);
  return some;
}

// Percentiles of each rank: a column of dots over its number.
std::string rank_chart(const Noise& noise) {
  const Decades decades(noise);
  const auto ranks = noise.ranks.size();
  Svg svg(chart_width, chart_height, "Percentiles of the delays by rank");
  const Frame f = draw_frame(svg, chart_height, -0.5, static_cast<double>(ranks) - 0.5, decades.low,
                             decades.high, "rank", "delay: 10^y s");
  constexpr struct {
    double p;
    std::string_view css, name;
  } marks[] = {{0.5, "series0", "half of the quanta"},
               {0.99, "series2", "99 of 100"},
               {0.999, "series1", "999 of 1000"},
               {1, "lost", "the longest"}};
  const std::size_t stride = (ranks + most_ranks - 1) / most_ranks;
  for (std::size_t r = 0; r < ranks; r += stride)
    for (const auto& m : marks) {
      const NoiseGroup& g = noise.ranks[r];
      const double s = g.delays.quantile(m.p);
      svg.dot(
          {f.x(static_cast<double>(r)), f.y(std::clamp(exponent(s), decades.low, decades.high))},
          m.css, fmt::format("rank {}, {}: {}", g.rank, g.host, duration(s)));
    }
  std::vector<LegendEntry> entries;
  for (const auto& m : marks) entries.push_back({m.css, m.name});
  return svg.str() + legend(entries);
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
  page += "<h2>Figures</h2>\n<pre>" + escape(noise_text(n)) + "</pre>\n";
  return document("Noise: ShardMark", page);
}

}  // namespace shardmark
