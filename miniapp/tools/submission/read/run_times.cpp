// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <fmt/core.h>

#include <miniapp/tools/submission/read/run_times.hpp>

namespace shardmark {
namespace {

constexpr const char* time_form = "%Y-%m-%dT%H:%M:%SZ";  // that of utc_now()

std::int64_t seconds_of(const std::string& text, const std::string& at) {
  std::tm utc{};
  const char* end = ::strptime(text.c_str(), time_form, &utc);
  if (end == nullptr || *end != '\0')
    throw ReportError(fmt::format("report.json: {} is not a time like 2026-11-23T12:30:00Z", at));
  return static_cast<std::int64_t>(::timegm(&utc));
}

}  // namespace

RunTimes run_times(const ReportReader& report) {
  RunTimes times{.started = report.text("/run/started"), .ended = report.text("/run/ended")};
  times.started_s = seconds_of(times.started, "/run/started");
  times.ended_s = seconds_of(times.ended, "/run/ended");
  return times;
}

}  // namespace shardmark
