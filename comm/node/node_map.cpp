// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <comm/node/node_map.hpp>

namespace shardmark {
namespace {

// The bounds of the shares on all nodes, from 0 to 1.
std::vector<Cut> find_cuts(const std::vector<std::vector<int>>& ranks) {
  std::set<std::size_t> counts;
  for (const auto& node : ranks) counts.insert(node.size());
  const auto before = [](const Cut& a, const Cut& b) {
    return a.numerator * b.denominator < b.numerator * a.denominator;
  };
  std::set<Cut, decltype(before)> cuts{{0, 1}};
  for (const std::size_t count : counts)
    for (std::size_t i = 1; i <= count; ++i)
      cuts.insert({static_cast<std::int64_t>(i), static_cast<std::int64_t>(count)});
  return {cuts.begin(), cuts.end()};
}

}  // namespace

NodeMap::NodeMap(const std::vector<int>& node_of_rank, int rank) : rank_(rank) {
  std::map<int, int> numbers;
  for (std::size_t r = 0; r < node_of_rank.size(); ++r) {
    const auto [it, is_new] = numbers.emplace(node_of_rank[r], static_cast<int>(ranks_.size()));
    if (is_new) ranks_.emplace_back();
    auto& members = ranks_[static_cast<std::size_t>(it->second)];
    node_of_.push_back(it->second);
    local_of_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(r));
  }
  int before = 0;
  for (const auto& members : ranks_) {
    before_.push_back(before);
    before += static_cast<int>(members.size());
  }
  cuts_ = find_cuts(ranks_);
  rails_of_.resize(static_cast<std::size_t>(locals()));
  for (int r = 0; r < rails(); ++r)
    rails_of_[static_cast<std::size_t>(driver(node(), r))].push_back(r);
}

int NodeMap::most_locals() const {
  std::size_t most = 0;
  for (const auto& members : ranks_) most = std::max(most, members.size());
  return static_cast<int>(most);
}

Part NodeMap::rail(int rail, std::int64_t elems) const {
  const std::int64_t first = cuts_[static_cast<std::size_t>(rail)].of(elems);
  return {first, cuts_[static_cast<std::size_t>(rail) + 1].of(elems) - first};
}

int NodeMap::driver(int node, int rail) const {
  return static_cast<int>(cuts_[static_cast<std::size_t>(rail)].of(locals(node)));
}

Part NodeMap::share(int local, std::int64_t elems) const {
  const auto& mine = rails_of(local);
  const std::int64_t first = rail(mine.front(), elems).first;
  return {first, rail(mine.back(), elems).end() - first};
}

}  // namespace shardmark
