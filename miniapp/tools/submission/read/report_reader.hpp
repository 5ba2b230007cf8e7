// SPDX-License-Identifier: Apache-2.0
// Reads figures from a report.json that somebody else made, so nothing about its form is certain.
// When a run began and ended, as its report says.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <io/files/output_folder.hpp>

namespace shardmark {

/// Thrown by ReportReader. `what()` names the figure: "report.json: /memory/system is missing".
struct ReportError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The figures of a report by JSON pointer, such as "/fom/value".
class ReportReader {
 public:
  /// `report` outlives the reader.
  explicit ReportReader(const nlohmann::json& report) : report_(report) {}

  bool has(const std::string& pointer) const;
  /// Each throws ReportError if there is no such figure, or if it has another type.
  const nlohmann::json& at(const std::string& pointer) const;
  std::int64_t integer(const std::string& pointer) const;
  double number(const std::string& pointer) const;
  std::string text(const std::string& pointer) const;
  /// The elements of an array, to read figures from.
  std::vector<ReportReader> list(const std::string& pointer) const;
  /// Returns the numbers of an array, with 0 for an element that is no number.
  std::vector<double> numbers(const std::string& pointer) const;

 private:
  const nlohmann::json& report_;
};

/// Reads what `losses_csv` wrote. Throws ReportError that names the line.
std::vector<LossRow> read_losses(const std::string& text);

/// Both in UTC, as text and in seconds since 1970.
struct RunTimes {
  std::string started, ended;
  std::int64_t started_s = 0, ended_s = 0;
};

/// Throws ReportError if a time is missing or is not written like "2026-11-23T12:30:00Z".
RunTimes run_times(const ReportReader& report);

}  // namespace shardmark
