// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include <fmt/core.h>

#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

namespace {

[[noreturn]] void refuse(const std::string& pointer, std::string_view what) {
  throw ReportError(fmt::format("report.json: {} {}", pointer, what));
}

constexpr const char* head = "step,loss,grad_norm,lr,loss_scale,skipped,seconds";

double number(const std::string& cell, int line) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (cell.empty() || *end != '\0')
    throw ReportError(
        fmt::format("losses.csv: line {}: \"{}\" is not a number", line, cell.substr(0, 40)));
  return value;
}

constexpr const char* time_form = "%Y-%m-%dT%H:%M:%SZ";  // that of utc_now()

std::int64_t seconds_of(const std::string& text, const std::string& at) {
  std::tm utc{};
  const char* end = ::strptime(text.c_str(), time_form, &utc);
  if (end == nullptr || *end != '\0')
    throw ReportError(fmt::format("report.json: {} is not a time like 2026-11-23T12:30:00Z", at));
  return static_cast<std::int64_t>(::timegm(&utc));
}

}  // namespace

bool ReportReader::has(const std::string& pointer) const {
  return report_.contains(nlohmann::json::json_pointer(pointer));
}

const nlohmann::json& ReportReader::at(const std::string& pointer) const {
  const nlohmann::json::json_pointer at(pointer);
  if (!report_.contains(at)) refuse(pointer, "is missing");
  return report_.at(at);
}

std::int64_t ReportReader::integer(const std::string& pointer) const {
  const nlohmann::json& value = at(pointer);
  if (!value.is_number_integer()) refuse(pointer, "is not an integer");
  return value.get<std::int64_t>();
}

double ReportReader::number(const std::string& pointer) const {
  const nlohmann::json& value = at(pointer);
  if (!value.is_number()) refuse(pointer, "is not a number");
  return value.get<double>();
}

std::string ReportReader::text(const std::string& pointer) const {
  const nlohmann::json& value = at(pointer);
  if (!value.is_string()) refuse(pointer, "is not text");
  return value.get<std::string>();
}

std::vector<ReportReader> ReportReader::list(const std::string& pointer) const {
  const nlohmann::json& all = at(pointer);
  return {all.begin(), all.end()};
}

std::vector<double> ReportReader::numbers(const std::string& pointer) const {
  std::vector<double> all;
  for (const nlohmann::json& value : at(pointer))
    all.push_back(value.is_number() ? value.get<double>() : 0);
  return all;
}

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

RunTimes run_times(const ReportReader& report) {
  RunTimes times{.started = report.text("/run/started"), .ended = report.text("/run/ended")};
  times.started_s = seconds_of(times.started, "/run/started");
  times.ended_s = seconds_of(times.ended, "/run/ended");
  return times;
}

}  // namespace shardmark
