// SPDX-License-Identifier: Apache-2.0
// The checksum of a report: it finds a report.json or losses.csv that was edited after the run. It
// proves nothing, since whoever edits a report can compute it again.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace shardmark {

/// A report as text. An environment may contain bytes that are not UTF-8, which become U+FFFD.
std::string report_dump(const nlohmann::ordered_json& report);

/// {"report": …, "losses": …}: the hash (hash_hex) of the report without its key `checksum`, as
/// JSON on one line with sorted keys, and that of the text of losses.csv. Pure.
nlohmann::json report_checksum(const nlohmann::ordered_json& report, const std::string& losses);
/// The same of a report that was read.
nlohmann::json report_checksum(nlohmann::json report, const std::string& losses);

}  // namespace shardmark
