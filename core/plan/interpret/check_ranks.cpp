// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

// The properties of a collective on which all ranks of a group must agree.
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

// The collectives that one rank issues, and the members of its groups.
struct Issued {
  int rank;
  int part;  // ranks with the same number have parts of the same sizes
  std::map<std::string, std::vector<Signature>> by_group;  // by the name of the group
  std::map<std::string, std::vector<int>> members;         // by name, too; empty: all ranks
  std::vector<std::string> order;  // of all collectives: the group's name and the segment
};

Issued issued_by(const Program& p) {
  Issued all{p.rank, divides_evenly(p.model.spec) ? 0 : p.mesh.tensor_rank(), {}, {}, {}};
  for (const Group& g : p.groups) {
    all.by_group[g.name];
    all.members[g.name] = g.ranks;
  }
  for (const Segment& s : p.segments)
    for (const Event& e : s.events) {
      if (!is_collective(e.op)) continue;
      const std::string& group = p.groups.at(e.group).name;
      all.by_group[group].push_back(
          {s.name, e.op, e.dtype, e.reduction, e.micro_batch, e.root, p.array_elems(e)});
      if (p.groups.size() > 1) all.order.push_back(group + " in " + s.name);
    }
  return all;
}

using Violations = std::vector<Violation>;

// The ranks of one group must issue the same collectives, and so must the ranks of groups with the
// same name, unless their parts of divided layers differ in size. That is why it is enough to look
// at a few of many ranks.
void compare_groups(const Issued& a, const Issued& b, Violations& violations) {
  for (const auto& [group, list] : a.by_group) {
    if (const auto theirs = b.members.find(group);
        a.part != b.part && theirs != b.members.end() && theirs->second != a.members.at(group))
      continue;
    const auto it = b.by_group.find(group);
    const auto& other = it == b.by_group.end() ? std::vector<Signature>{} : it->second;
    if (other == list) continue;
    const auto [x, y] = std::mismatch(list.begin(), list.end(), other.begin(), other.end());
    violations.push_back({Rule::ranks_disagree,
                          fmt::format("group {}, collective {}", group, x - list.begin()),
                          fmt::format("rank {} issues {}, rank {} issues {}", a.rank,
                                      x == list.end() ? "nothing more" : text(*x), b.rank,
                                      y == other.end() ? "nothing more" : text(*y))});
  }
}

// A rank that waits in one group while another rank first waits in another group would wait for
// ever.
void compare_order(const Issued& a, const Issued& b, Violations& violations) {
  if (a.order == b.order) return;
  const auto [x, y] = std::mismatch(a.order.begin(), a.order.end(), b.order.begin(), b.order.end());
  violations.push_back({Rule::ranks_disagree,
                        fmt::format("collective {} of all groups", x - a.order.begin()),
                        fmt::format("rank {} takes group {}, rank {} group {}: all must go through "
                                    "their groups in one order",
                                    a.rank, x == a.order.end() ? "none" : *x, b.rank,
                                    y == b.order.end() ? "none" : *y)});
}

// All members of a rank's group must have the same group, as far as they are looked at.
void compare_members(const std::map<int, Issued>& all, Violations& violations) {
  for (const auto& [rank, issued] : all)
    for (const auto& [group, ranks] : issued.members)
      for (int member : ranks) {
        const auto it = all.find(member);
        if (it == all.end()) continue;
        const auto theirs = it->second.members.find(group);
        if (theirs != it->second.members.end() && theirs->second == ranks) continue;
        violations.push_back(
            {Rule::ranks_disagree, "group " + group,
             fmt::format("rank {} has ranks {} in it, rank {} has {}", rank, join(ranks, ","),
                         member,
                         theirs == it->second.members.end() ? "no such group"
                                                            : join(theirs->second, ","))});
      }
}

}  // namespace

std::vector<Violation> check_ranks(const std::vector<int>& ranks,
                                   const std::function<Program(int)>& program_of) {
  Violations violations;
  std::map<int, Issued> all;
  std::vector<Issued> firsts;  // the ranks with which the others are compared, one for each part
  for (int rank : ranks) {
    Issued issued = issued_by(program_of(rank));
    for (const Issued& first : firsts) compare_groups(issued, first, violations);
    if (firsts.empty())
      firsts.push_back(issued);
    else
      compare_order(issued, firsts.front(), violations);
    if (std::ranges::find(firsts, issued.part, &Issued::part) == firsts.end())
      firsts.push_back(issued);
    issued.by_group.clear();  // only one rank's are held, and those of the first ones
    issued.order.clear();
    all.emplace(rank, std::move(issued));
  }
  compare_members(all, violations);
  return violations;
}

}  // namespace shardmark
