// SPDX-License-Identifier: Apache-2.0
// The part of the printed report that says where its figures come from.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// Where the text of the report is appended.
using Out = std::back_insert_iterator<std::string>;

/// Ranks that run alike but for their number: a row of a table.
struct RankGroup {
  std::vector<int> ranks;  // ascending
  RankInfo of;
};
/// In the order of their first ranks. Cores of their own make groups of their own.
std::vector<RankGroup> rank_groups(const std::vector<RankInfo>& ranks);

/// One line: ShardMark, Kokkos, matrix products, MPI, compiler, system.
std::string software_line(const Result& result);

/// "NAME=value" where all ranks agree, else each value with its ranks; long worlds are cut short.
std::vector<std::string> environment_lines(const Result& result);

/// Machine, ranks, software, environment.
void provenance_tables(Out out, const Result& result);

/// Rows of ranks that a page or a screen shows; report.json has all.
inline constexpr std::size_t most_rank_rows = 16;

}  // namespace shardmark
