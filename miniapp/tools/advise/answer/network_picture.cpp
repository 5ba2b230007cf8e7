// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/subject.hpp>

namespace shardmark {
namespace {

constexpr double picture_width = 760, picture_height = 340;
constexpr double plot_left = 76, plot_right = 744, plot_top = 74, plot_bottom = 288;
constexpr std::array<const char*, stage_count> stage_colours{"#0b62c4", "#1a8f3c", "#c96a00",
                                                             "#b3123f"};

std::string svg_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string svg_text(double x, double y, std::string_view text, std::string_view attributes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y,
                     attributes.empty() ? "" : " ", attributes, svg_escaped(text));
}

// 1, 2 or 5 times a power of ten, so that at most five of them reach `most`.
double tick_distance(double most) {
  double distance = 1;
  while (distance * 50 <= most) distance *= 10;
  for (const double times : {1.0, 2.0, 5.0})
    if (distance * times * 5 >= most) return distance * times;
  return distance * 10;
}

std::string grid(double top_value) {
  const double distance = tick_distance(top_value);
  std::string svg;
  for (int i = 0; i * distance <= top_value * 1.0001; ++i) {
    const double v = i * distance, y = plot_bottom - (plot_bottom - plot_top) * v / top_value;
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ccc\"/>\n",
                       plot_left, plot_right, y, y);
    svg += svg_text(plot_left - 6, y + 4, fmt::format("{:.6g}", v), "text-anchor=\"end\"");
  }
  return svg;
}

std::string key_of_stages(const NetworkTable& table) {
  std::string svg;
  for (int stage = 0; stage < stage_count; ++stage) {
    const Candidate& c = table.stages[stage];
    const double x = plot_left + 168.0 * stage;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"48\" width=\"11\" height=\"11\" fill=\"{}\"/>\n", x,
                       c.fits ? stage_colours[stage] : "url(#none)");
    svg += svg_text(x + 16, 58,
                    fmt::format("stage {}{}", stage,
                                c.fits                ? ""
                                : c.missing_bytes > 0 ? " does not fit"
                                                      : " is refused"));
  }
  return svg;
}

// "InfiniBand, 8 x 400 Gb/s" after the comma, other names before their second half.
std::pair<std::string, std::string> two_lines(const std::string& name) {
  const std::size_t comma = name.find(", ");
  if (comma != std::string::npos) return {name.substr(0, comma), name.substr(comma + 2)};
  const std::size_t blank = name.rfind(' ', name.size() / 2);
  if (blank == std::string::npos) return {name, ""};
  return {name.substr(0, blank), name.substr(blank + 1)};
}

// One group of bars per network.
std::string bars_of(const NetworkTable& table, double top_value) {
  const double group = (plot_right - plot_left) / static_cast<double>(table.rows.size());
  const double bar = group * 0.8 / stage_count;
  std::string svg;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const NetworkRow& row = table.rows[i];
    const double from = plot_left + group * (static_cast<double>(i) + 0.1);
    for (int stage = 0; stage < stage_count; ++stage) {
      const double x = from + bar * stage;
      const double rate = row.tokens_per_s[stage].value_or(0);
      const double height =
          rate > 0 ? (plot_bottom - plot_top) * rate / top_value : 8;  // a mark without a scale
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}"
          "</title></rect>\n",
          x + 1, plot_bottom - height, bar - 2, height,
          rate > 0 ? stage_colours[stage] : "url(#none)",
          svg_escaped(rate > 0 ? fmt::format("{}, stage {}: {} tokens/s", row.network, stage,
                                             four_digits(rate))
                               : fmt::format("stage {}: {}", stage, table.stages[stage].refusal)));
    }
    const auto [first, second] = two_lines(row.network);
    const double middle = from + group * 0.4;
    svg += svg_text(middle, plot_bottom + 16, first, "text-anchor=\"middle\"");
    svg += svg_text(middle, plot_bottom + 30, second, "text-anchor=\"middle\"");
  }
  return svg;
}

}  // namespace

std::string network_picture(const AdviseCase& question, const NetworkTable& table) {
  double most = 0;
  for (const NetworkRow& r : table.rows)
    for (const auto& rate : r.tokens_per_s) most = std::max(most, rate.value_or(0));
  const double tick = tick_distance(most);
  const double top_value = most > 0 ? std::ceil(most / tick) * tick : 1;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<defs><pattern id=\"none\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">"
      "<path d=\"M0 4L4 0\" stroke=\"#888\"/></pattern></defs>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      picture_width, picture_height);
  svg +=
      svg_text(plot_left, 18,
               fmt::format("{} on {} of {}: tokens per second by network and stage",
                           table.deck.name, plural(question.ranks, "rank"), question.machine->name),
               "font-weight=\"bold\"");
  svg += svg_text(plot_left, 36,
                  fmt::format("{} parameters, {}", count_words(table.parameters),
                              settings_line(table.deck, table.batch)));
  return svg + key_of_stages(table) + grid(top_value) + bars_of(table, top_value) + "</svg>\n";
}

}  // namespace shardmark
