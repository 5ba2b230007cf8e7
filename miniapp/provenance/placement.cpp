// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include <core/number_list.hpp>
#include <core/text.hpp>
#include <miniapp/provenance/placement.hpp>

namespace shardmark {
namespace {

// Ranks of one host whose threads run on the same cores.
struct Share {
  std::string host;
  std::set<int> cores;
  std::vector<int> ranks;
  int threads = 0;
  bool too_few() const { return threads > static_cast<int>(cores.size()) && !cores.empty(); }
};

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", format_numbers(ranks));
}

std::vector<Share> by_mask(const std::vector<RankInfo>& ranks) {
  std::map<std::pair<std::string, std::string>, Share> shares;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankInfo& rank = ranks[r];
    Share& share = shares[{rank.host, rank.cores}];
    const std::vector<int> cores = parse_numbers(rank.cores);
    share.host = rank.host;
    share.cores.insert(cores.begin(), cores.end());
    share.ranks.push_back(static_cast<int>(r));
    share.threads += rank.threads();
  }
  std::vector<Share> list;
  for (auto& [key, share] : shares) list.push_back(std::move(share));
  return list;
}

bool overlap(const Share& a, const Share& b) {
  return a.host == b.host && std::any_of(a.cores.begin(), a.cores.end(),
                                         [&](int core) { return b.cores.contains(core); });
}

// Merges masks that overlap until none do.
std::vector<Share> merged(std::vector<Share> shares) {
  for (std::size_t i = 0; i < shares.size();) {
    const auto other =
        std::find_if(shares.begin() + static_cast<std::ptrdiff_t>(i) + 1, shares.end(),
                     [&](const Share& s) { return overlap(shares[i], s); });
    if (other == shares.end()) {
      ++i;
      continue;
    }
    shares[i].cores.insert(other->cores.begin(), other->cores.end());
    shares[i].ranks.insert(shares[i].ranks.end(), other->ranks.begin(), other->ranks.end());
    shares[i].threads += other->threads;
    shares.erase(other);
  }
  for (Share& s : shares) std::sort(s.ranks.begin(), s.ranks.end());
  return shares;
}

std::string sharing(const Share& s) {
  const std::string cores = format_numbers({s.cores.begin(), s.cores.end()});
  const std::string on =
      fmt::format("{} on {} of {} ({})", plural(s.threads, "thread"),
                  plural(static_cast<std::int64_t>(s.cores.size()), "core"), s.host, cores);
  if (s.ranks.size() == 1)
    return fmt::format("{} runs {}: set OMP_NUM_THREADS, or give it more cores",
                       name_ranks(s.ranks), on);
  return fmt::format("{} share cores: {}: times mean little; bind each rank to its own cores",
                     name_ranks(s.ranks), on);
}

void add_sharing(const std::vector<RankInfo>& ranks, std::vector<std::string>& list) {
  const std::vector<Share> masks = by_mask(ranks);
  std::set<int> reported;
  for (const Share& s : masks) {
    if (!s.too_few()) continue;
    list.push_back(sharing(s));
    reported.insert(s.ranks.begin(), s.ranks.end());
  }
  for (const Share& s : merged(masks))
    if (s.too_few() &&
        std::none_of(s.ranks.begin(), s.ranks.end(), [&](int r) { return reported.contains(r); }))
      list.push_back(sharing(s));
}

// A rank that may run on several NUMA nodes although one has enough cores for its threads.
bool wanders(const RankInfo& rank) {
  const std::size_t nodes = parse_numbers(rank.numa_nodes).size();
  const std::size_t cores = parse_numbers(rank.cores).size();
  return nodes > 1 && static_cast<std::size_t>(rank.threads()) <= cores / nodes;
}

// Ranks whose OpenMP lets several threads move, or puts all of them on the place of the first.
void add_binding(const std::vector<RankInfo>& ranks, std::vector<std::string>& list) {
  std::vector<int> free, crowded;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].threads() < 2) continue;
    if (ranks[r].thread_binding == "false") free.push_back(static_cast<int>(r));
    if (ranks[r].thread_binding == "primary") crowded.push_back(static_cast<int>(r));
  }
  if (!free.empty())
    list.push_back(fmt::format(
        "{}: OpenMP does not bind the threads, so they may move away from their memory: "
        "set OMP_PROC_BIND=spread and OMP_PLACES=cores",
        name_ranks(free)));
  if (!crowded.empty())
    list.push_back(
        fmt::format("{}: OpenMP binds all threads to the place of the first: set "
                    "OMP_PROC_BIND=spread instead of primary",
                    name_ranks(crowded)));
}

constexpr std::size_t most_warnings = 8;

}  // namespace

std::vector<std::string> placement_warnings(const std::vector<RankInfo>& ranks) {
  std::vector<std::string> list;
  add_sharing(ranks, list);
  std::vector<int> wandering;
  std::map<std::string, std::vector<int>> models;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (wanders(ranks[r])) wandering.push_back(static_cast<int>(r));
    models[ranks[r].processor].push_back(static_cast<int>(r));
  }
  if (list.size() > most_warnings) {
    const std::size_t more = list.size() - most_warnings;
    list.resize(most_warnings);
    list.push_back(fmt::format("… and {} more like these", more));
  }
  add_binding(ranks, list);
  if (!wandering.empty())
    list.push_back(fmt::format(
        "{} may run on several NUMA nodes (rank {}: {}), so memory may be far from where it is "
        "used: bind each rank to one",
        name_ranks(wandering), wandering[0],
        ranks[static_cast<std::size_t>(wandering[0])].numa_nodes));
  if (models.size() > 1) {
    std::string text;
    for (const auto& [model, of] : models)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", model, name_ranks(of));
    list.push_back("ranks run on different processors; the slowest sets the pace: " + text);
  }
  return list;
}

}  // namespace shardmark
