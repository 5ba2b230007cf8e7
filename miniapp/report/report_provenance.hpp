// SPDX-License-Identifier: Apache-2.0
// The part of the printed report that describes machine, ranks and software, and the checksum of a
// report: it finds a report.json or losses.csv that was edited after the run. It
// proves nothing, since whoever edits a report can compute it again.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Where the text of the report is appended.
using Out = std::back_insert_iterator<std::string>;

/// Ranks that differ only in their number: one row of a table.
struct RankGroup {
  std::vector<int> ranks;  // ascending
  RankInfo of;
};
/// Groups in the order of their first ranks. Ranks on different cores are in different groups.
std::vector<RankGroup> rank_groups(const std::vector<RankInfo>& ranks);

/// "NAME=value" if all ranks agree, else some values with their ranks.
std::vector<std::string> environment_lines(const Result& result);

/// Machine, ranks, software, environment.
void provenance_tables(Out out, const Result& result);

/// How many rows of ranks a page or a screen shows; report.json has all ranks.
inline constexpr std::size_t most_rank_rows = 16;

/// A report as text. An environment may contain bytes that are not UTF-8, which become U+FFFD.
std::string report_dump(const nlohmann::ordered_json& report);

/// {"report": …, "losses": …}: the hash (hash_hex) of the report without its key `checksum`, as
/// JSON on one line with sorted keys, and that of the text of losses.csv. Pure.
nlohmann::json report_checksum(const nlohmann::ordered_json& report, const std::string& losses);
/// Returns the same for a report that was read from a file.
nlohmann::json report_checksum(nlohmann::json report, const std::string& losses);

}  // namespace shardmark
