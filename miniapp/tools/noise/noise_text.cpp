// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/noise/noise_rows.hpp>

namespace shardmark {
namespace {

// In characters of UTF-8.
std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Columns as wide as they need to be.
std::string as_text(const NoiseRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], shown_width(cells[i]));
  }
  std::string text;
  for (const auto& cells : rows) {
    text += fmt::format("  {:<{}}", cells.front(), widths.front());
    for (std::size_t i = 1; i < cells.size(); ++i)
      text += fmt::format("  {:>{}}", cells[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
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

}  // namespace shardmark
