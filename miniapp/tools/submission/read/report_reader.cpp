// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {
namespace {

[[noreturn]] void refuse(const std::string& pointer, std::string_view what) {
  throw ReportError(fmt::format("report.json: {} {}", pointer, what));
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

}  // namespace shardmark
