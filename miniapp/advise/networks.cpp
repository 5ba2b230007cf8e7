// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/error.hpp>
#include <miniapp/advise/networks.hpp>

namespace shardmark {
namespace {

// Nominal networks of a node. What of the bandwidth collectives reach is what published benchmarks
// of well-tuned clusters show (docs/prediction.md).
struct NamedNetwork {
  const char* name;
  double node_gbit_per_s;  // 0: all ranks in one domain of the links within a node
  double latency_us, efficiency;
};
constexpr std::array<NamedNetwork, 6> networks{{{"links within a node only", 0, 0, 0},
                                                {"InfiniBand, 8 x 400 Gb/s", 3200, 2, 0.92},
                                                {"InfiniBand, 8 x 200 Gb/s", 1600, 2, 0.92},
                                                {"RoCE, 8 x 200 Gb/s", 1600, 3, 0.85},
                                                {"Ethernet, 100 Gb/s", 100, 15, 0.85},
                                                {"Ethernet, 25 Gb/s", 25, 20, 0.85}}};

Machine with_network(Machine m, const NamedNetwork& n, int ranks_per_node) {
  NetworkLevel level;
  for (const NetworkLevel& other : m.network)
    level = other.between_nodes || level.name.empty() ? other : level;
  std::erase_if(m.network, [](const NetworkLevel& l) { return l.between_nodes; });
  level.name = n.name;
  level.between_nodes = true;
  level.collectives.clear();
  level.oversubscription = 1;
  level.efficiency = n.efficiency;
  level.node_bytes_per_s = n.node_gbit_per_s * 1e9 / 8;
  level.link = {n.latency_us * 1e-6, level.node_bytes_per_s / ranks_per_node, false, "nominal"};
  if (level.nccl) {
    constexpr int channels = 16;
    level.nccl->ring = level.nccl->tree = {channels, level.node_bytes_per_s / channels};
    level.nccl->nvls = {};
    level.nccl->network_s = level.link.latency_s;
  }
  m.network.push_back(std::move(level));
  return m;
}

}  // namespace

std::vector<NetworkRow> network_rows(const AdviseCase& question) {
  std::array<std::optional<Program>, stage_count> programs;
  std::array<Candidate, stage_count> candidates;
  for (int stage = 0; stage < stage_count; ++stage) {
    const DeckChanges changes{{"deepspeed.zero_optimization.stage", std::to_string(stage)}};
    candidates[stage] = evaluate(question, changes, true);
    if (candidates[stage].step_s > 0) programs[stage] = program_of(question, changes);
  }
  std::vector<NetworkRow> rows;
  for (const NamedNetwork& n : networks) {
    NetworkRow row;
    row.network = n.name;
    const bool one_domain = n.node_gbit_per_s == 0;
    const int per_node = one_domain ? question.ranks : question.ranks_per_node;
    const Machine machine =
        one_domain ? *question.machine : with_network(*question.machine, n, per_node);
    for (int stage = 0; stage < stage_count; ++stage) {
      row.fits[stage] = candidates[stage].fits;
      if (!programs[stage]) continue;
      row.tokens_per_s[stage] = candidates[stage].tokens_per_s * candidates[stage].step_s /
                                step_seconds(*programs[stage], machine, per_node);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string network_text(const std::vector<NetworkRow>& rows) {
  std::string text = fmt::format("{:<28} {:>12} {:>12} {:>12} {:>12}   {}\n", "tokens/s", "stage 0",
                                 "stage 1", "stage 2", "stage 3", "stage 3 against stage 0");
  bool any_refused = false;
  for (const NetworkRow& r : rows) {
    text += fmt::format("{:<28}", r.network);
    for (int stage = 0; stage < stage_count; ++stage) {
      text += r.tokens_per_s[stage]
                  ? fmt::format(" {:>11.4g}{}", *r.tokens_per_s[stage], r.fits[stage] ? " " : "*")
                  : fmt::format(" {:>12}", "–");
      any_refused = any_refused || !r.fits[stage];
    }
    if (r.tokens_per_s[0] && r.tokens_per_s[3]) {
      const double ratio = *r.tokens_per_s[3] / *r.tokens_per_s[0];
      constexpr double alike = 0.02;
      text += std::abs(ratio - 1) <= alike ? "   costs nothing"
              : ratio > 1                  ? fmt::format("   {:.0f} % faster", 100 * (ratio - 1))
                                           : fmt::format("   {:.0f} % slower", 100 * (1 - ratio));
    }
    text += '\n';
  }
  if (any_refused) text += "* does not fit in the memory of this machine\n";
  return text;
}

std::string network_picture(const std::vector<NetworkRow>& rows, const std::string& title) {
  constexpr double width = 720, height = 320, left = 80, right = 90, top = 30, bottom = 60;
  double most = 0;
  for (const NetworkRow& r : rows)
    for (const auto& rate : r.tokens_per_s) most = std::max(most, rate.value_or(0));
  const auto x = [&](std::size_t i) {
    return left + (width - left - right) * static_cast<double>(i) /
                      static_cast<double>(std::max<std::size_t>(1, rows.size() - 1));
  };
  const auto y = [&](double rate) {
    return height - bottom - (height - top - bottom) * (most > 0 ? rate / most : 0);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"white\"/>\n<text x=\"{2}\" y=\"18\">{3}: tokens per second by stage</text>\n",
      width, height, left, title);
  for (const double part : {0.0, 0.5, 1.0})
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ccc\"/><text "
        "x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n",
        left, width - right, y(part * most), y(part * most), left - 6, y(part * most) + 4,
        part * most);
  for (std::size_t i = 0; i < rows.size(); ++i)
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\">{}</text>\n", x(i),
        height - bottom + 16 + static_cast<double>(i % 2) * 14, rows[i].network);
  constexpr std::array<const char*, stage_count> colours{"#06c", "#090", "#c60", "#c03"};
  for (std::size_t stage = 0; stage < stage_count; ++stage) {
    std::string line;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].tokens_per_s[stage])
        line += fmt::format("{:.1f},{:.1f} ", x(i), y(*rows[i].tokens_per_s[stage]));
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/><text "
        "x=\"{}\" y=\"{:.1f}\" fill=\"{}\">stage {}</text>\n",
        line, colours[stage], width - right + 8, top + 14 * static_cast<double>(stage) + 10,
        colours[stage], stage);
  }
  return svg + "</svg>\n";
}

}  // namespace shardmark
