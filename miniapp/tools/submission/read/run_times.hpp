// SPDX-License-Identifier: Apache-2.0
// When a run began and ended, as its report says.
#pragma once

#include <cstdint>
#include <string>

#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

/// Both in UTC, as text and in seconds since 1970.
struct RunTimes {
  std::string started, ended;
  std::int64_t started_s = 0, ended_s = 0;
};

/// Throws ReportError if a time is missing or is not written like "2026-11-23T12:30:00Z".
RunTimes run_times(const ReportReader& report);

}  // namespace shardmark
