// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <miniapp/charts/bars.hpp>

namespace shardmark::html {
namespace {

constexpr double bars_height = 260, widest = 64, filled = 0.8;

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts) sum += std::max(0.0, part.value);
  return sum;
}

double top_of(const Bars& b) {
  double most = 0;
  for (const BarGroup& group : b.groups)
    for (const Bar& bar : group.bars) most = std::max(most, sum_of(bar));
  for (const Level& level : b.levels) most = std::max(most, level.at);
  return most > 0 ? 1.1 * most : 1;
}

void draw_bar(Svg& svg, const Frame& f, const Bar& bar, double middle, double width) {
  if (bar.parts.empty()) return svg.text({middle, f.bottom - 6}, "–", Anchor::middle, "unit");
  double from = 0;
  for (const BarPart& part : bar.parts) {
    if (!(part.value > 0)) continue;
    const double to = from + part.value;
    svg.box(middle - width / 2, f.y(to), width, f.y(from) - f.y(to), part.css, part.title);
    from = to;
  }
  const std::string figure = fmt::format("{:.4g}", from);
  if (width > character_width(svg.width()) * static_cast<double>(figure.size()) - 2)
    svg.text({middle, f.y(from) - 5}, figure, Anchor::middle, bar.bad ? "bad" : "strong");
}

// Each part that is drawn, once.
std::string legend_of(const Bars& b) {
  std::vector<LegendEntry> entries;
  const auto add = [&](const std::string& css, const std::string& name) {
    const auto same = [&](const LegendEntry& e) { return e.name == name; };
    if (!name.empty() && std::none_of(entries.begin(), entries.end(), same))
      entries.push_back({css, name});
  };
  for (const BarGroup& group : b.groups)
    for (const Bar& bar : group.bars)
      for (const BarPart& part : bar.parts)
        if (part.value > 0) add(part.css, part.name);
  for (const Level& level : b.levels) add("curve " + level.css, level.name);
  return legend(entries);
}

}  // namespace

std::string draw(const Bars& b, double width) {
  if (b.groups.empty()) return {};
  ChartAxis x{b.x_unit}, y{b.y_unit};
  const auto groups = static_cast<double>(b.groups.size());
  x.low = 0, x.high = groups, y.low = 0, y.high = top_of(b);
  for (std::size_t g = 0; g < b.groups.size(); ++g)
    x.ticks.push_back({static_cast<double>(g) + 0.5, b.groups[g].name});
  Svg svg(width, bars_height, b.label);
  const Frame f = draw_frame(svg, bars_height, x, y);
  const auto bars = static_cast<double>(b.groups.front().bars.size());
  const double place = std::min(widest, (f.right - f.left) / groups * filled / bars);
  for (std::size_t g = 0; g < b.groups.size(); ++g)
    for (std::size_t i = 0; i < b.groups[g].bars.size(); ++i)
      draw_bar(
          svg, f, b.groups[g].bars[i],
          f.x(static_cast<double>(g) + 0.5) + (static_cast<double>(i) - (bars - 1) / 2) * place,
          0.9 * place);
  for (const Level& level : b.levels)
    svg.line({f.left, f.y(level.at)}, {f.right, f.y(level.at)}, level.css);
  return svg.str() + legend_of(b);
}

std::string to_html(const Bars& bars) {
  return at_both_widths([&](double width) { return draw(bars, width); });
}

}  // namespace shardmark::html
