// SPDX-License-Identifier: Apache-2.0
// The part of the printed report that describes machine, ranks and software.
#pragma once

#include <iterator>
#include <string>
#include <vector>

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

/// One line: ShardMark, Kokkos, matrix products, MPI, compiler, system.
std::string software_line(const Result& result);

/// "NAME=value" if all ranks agree, else some values with their ranks.
std::vector<std::string> environment_lines(const Result& result);

/// Machine, ranks, software, environment.
void provenance_tables(Out out, const Result& result);

/// How many rows of ranks a page or a screen shows; report.json has all ranks.
inline constexpr std::size_t most_rank_rows = 16;

}  // namespace shardmark
