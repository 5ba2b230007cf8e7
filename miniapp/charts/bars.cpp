// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/bars.hpp>

namespace shardmark::html {
namespace {

constexpr double widest = 64, filled = 0.8;

std::string figure_of(const Bar& bar, int digits) {
  return fmt::format("{:.{}g}", bar.sum(), digits);
}

// The digits that all bars have room for; 0: not even three, so that no bar has a figure.
int digits_of(const Svg& svg, const std::vector<BarGroup>& groups, double width) {
  constexpr double margin = 4;
  for (const int digits : {4, 3}) {
    const auto has_room = [&](const Bar& bar) {
      return bar.parts.empty() || text_width(figure_of(bar, digits), svg.width()) + margin < width;
    };
    if (std::ranges::all_of(
            groups, [&](const BarGroup& g) { return std::ranges::all_of(g.bars, has_room); }))
      return digits;
  }
  return 0;
}

void draw_bar(Svg& svg, const Frame& f, const Bar& bar, double middle, double width, int digits) {
  if (bar.parts.empty()) return svg.text({middle, f.bottom - 6}, "–", Anchor::middle, "unit");
  double from = 0;
  for (const BarPart& part : bar.parts) {
    if (!(part.value > 0)) continue;
    const double to = from + part.value;
    svg.box(middle - width / 2, f.y(to), width, f.y(from) - f.y(to), part.css, part.title);
    from = to;
  }
  if (digits > 0)
    svg.text({middle, f.y(from) - 5}, figure_of(bar, digits), Anchor::middle,
             bar.bad ? "bad" : "strong");
}

}  // namespace

double Bar::sum() const {
  double sum = 0;
  for (const BarPart& part : parts) sum += std::max(0.0, part.value);
  return sum;
}

std::vector<BarPart> category_parts(const EnumArray<Category, std::int64_t>& bytes,
                                    double unit_bytes, std::string_view at) {
  std::vector<BarPart> parts;
  for (const Category c : all_values<Category>) {
    const std::string name(to_string(c));
    parts.push_back({name, name, static_cast<double>(bytes[c]) / unit_bytes,
                     fmt::format("{}: {} of {}", at, human_bytes(bytes[c]), name)});
  }
  return parts;
}

void draw_bars(Svg& svg, const Frame& f, const std::vector<BarGroup>& groups) {
  if (groups.empty()) return;
  const auto bars = static_cast<double>(groups.front().bars.size());
  const double place =
      std::min(widest, (f.right - f.left) / static_cast<double>(groups.size()) * filled / bars);
  const double width = 0.9 * place;
  const int digits = digits_of(svg, groups, width);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < groups[g].bars.size(); ++i)
      draw_bar(
          svg, f, groups[g].bars[i],
          f.x(static_cast<double>(g) + 0.5) + (static_cast<double>(i) - (bars - 1) / 2) * place,
          width, digits);
}

std::vector<LegendEntry> legend_of(const std::vector<BarGroup>& groups) {
  std::vector<LegendEntry> entries;
  const auto add = [&](const BarPart& part) {
    const auto same = [&](const LegendEntry& e) { return e.name == part.name; };
    if (part.value > 0 && !part.name.empty() && std::ranges::none_of(entries, same))
      entries.push_back({part.css, part.name});
  };
  for (const BarGroup& group : groups)
    for (const Bar& bar : group.bars)
      for (const BarPart& part : bar.parts) add(part);
  return entries;
}

}  // namespace shardmark::html
