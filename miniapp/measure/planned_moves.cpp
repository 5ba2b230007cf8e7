// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <miniapp/measure/planned_moves.hpp>

namespace shardmark {
namespace {

// The rank of the program within one of its groups.
int rank_within(const Program& program, int group) {
  const std::vector<int>& ranks = program.groups[static_cast<std::size_t>(group)].ranks;
  if (ranks.empty()) return program.rank;
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), program.rank) - ranks.begin());
}

}  // namespace

MovedVolume moved_by_runs(const Program& program, const SegmentRuns& runs, int group) {
  MovedVolume sum;
  const int rank = rank_within(program, group), size = program.size_of(group);
  for (std::size_t s = 0; s < runs.size(); ++s)
    for (const Event& e : program.segments[s].events) {
      if (!is_collective(e.op) || e.op == Op::barrier || e.group != group || runs[s] == 0) continue;
      if (e.parts.count > 0) {
        const auto parts = program.part_counts.begin() + e.parts.first;
        const auto elems = [&](int first) {
          return runs[s] * std::accumulate(parts + first, parts + first + size, std::int64_t{0});
        };
        sum[e.op].send(elems(0), e.dtype);
        sum[e.op].receive(elems(size), e.dtype);
        continue;
      }
      const std::int64_t all = e.elems * runs[s];
      const bool root = e.root == rank;
      Moved& moved = sum[e.op];
      if (e.op != Op::broadcast || root)
        moved.send(e.op == Op::all_gather ? all / size : all, e.dtype);
      if (e.op != Op::reduce || root)
        moved.receive(e.op == Op::reduce_scatter ? all / size : all, e.dtype);
    }
  return sum;
}

}  // namespace shardmark
