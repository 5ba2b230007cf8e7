// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <core/plan/check.hpp>

namespace shardmark {
namespace {

// What all ranks of a group must agree on, of one collective.
struct Signature {
  std::string segment;
  Op op;
  Dtype dtype;
  Reduction reduction;
  std::int32_t micro_batch, root;
  std::int64_t elems;
  bool operator==(const Signature&) const = default;
};

std::string text(const Signature& s) {
  return fmt::format("{} {} x {} (root {}) in {}", to_string(s.op), to_string(s.dtype), s.elems,
                     s.root, s.segment);
}

using Issued = std::map<std::string, std::vector<Signature>>;  // by group: name and members

std::string group_key(const Program& p, const Group& g) {
  return g.ranks.empty() ? fmt::format("{} (all {})", g.name, p.world)
                         : fmt::format("{} ({})", g.name, fmt::join(g.ranks, ","));
}

Issued issued_by(const Program& p) {
  Issued all;
  for (const Group& g : p.groups) all[group_key(p, g)];
  for (const Segment& s : p.segments)
    for (const Event& e : s.events)
      if (is_collective(e.op))
        all[group_key(p, p.groups.at(e.group))].push_back(
            {s.name, e.op, e.dtype, e.reduction, e.micro_batch, e.root, e.elems});
  return all;
}

}  // namespace

std::vector<Violation> check_ranks(const std::vector<int>& ranks,
                                   const std::function<Program(int)>& program_of) {
  std::vector<Violation> violations;
  // By group: the rank that set the standard, and what it issues.
  std::map<std::string, std::pair<int, std::vector<Signature>>> first;
  for (int rank : ranks) {
    for (auto& [group, list] : issued_by(program_of(rank))) {
      const auto [it, fresh] = first.try_emplace(group, rank, list);
      if (fresh || it->second.second == list) continue;
      const auto& [other, standard] = it->second;
      const auto [a, b] = std::mismatch(list.begin(), list.end(), standard.begin(), standard.end());
      violations.push_back({Rule::ranks_disagree,
                            fmt::format("group {}, collective {}", group, a - list.begin()),
                            fmt::format("rank {} issues {}, rank {} issues {}", rank,
                                        a == list.end() ? "nothing more" : text(*a), other,
                                        b == standard.end() ? "nothing more" : text(*b))});
    }
  }
  return violations;
}

std::vector<int> ranks_to_check(int world, int rank) {
  std::vector<int> ranks;
  if (world <= 16) {
    for (int r = 0; r < world; ++r) ranks.push_back(r);
    return ranks;
  }
  for (int i = 0; i < 8; ++i)
    ranks.push_back(static_cast<int>(static_cast<std::int64_t>(world - 1) * i / 7));
  ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace shardmark
