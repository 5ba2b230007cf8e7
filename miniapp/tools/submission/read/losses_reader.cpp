// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include <fmt/core.h>

#include <miniapp/tools/submission/read/losses_reader.hpp>

namespace shardmark {
namespace {

constexpr const char* head = "step,loss,grad_norm,lr,loss_scale,skipped,seconds";

double number(const std::string& cell, int line) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (cell.empty() || *end != '\0')
    throw ReportError(
        fmt::format("losses.csv: line {}: \"{}\" is not a number", line, cell.substr(0, 40)));
  return value;
}

}  // namespace

std::vector<LossRow> read_losses(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != head)
    throw ReportError(fmt::format("losses.csv: the first line is not {}", head));
  std::vector<LossRow> rows;
  for (int n = 2; std::getline(in, line); ++n) {
    std::istringstream cells(line);
    std::array<double, 7> values{};
    std::string cell;
    std::size_t count = 0;
    while (std::getline(cells, cell, ',')) {
      if (count++ == values.size()) break;
      values[count - 1] = number(cell, n);
    }
    if (count != values.size() || !cells.eof())
      throw ReportError(fmt::format("losses.csv: line {} has not {} cells", n, values.size()));
    rows.push_back({static_cast<std::int64_t>(values[0]), values[1], values[2], values[3],
                    values[4], values[5] != 0, values[6]});
  }
  return rows;
}

}  // namespace shardmark
