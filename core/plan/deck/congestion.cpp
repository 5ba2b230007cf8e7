// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/congestion.hpp>
#include <core/plan/deck/named_ranks.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t most_buffer_bytes = std::int64_t{4} << 30;  // of a rank

// A rank has a buffer for each flow that it receives, and one to send from.
void require_memory(const CongestionSpec& spec, const std::vector<int>& ranks,
                    const std::string& deck) {
  std::map<int, std::int64_t> buffers;
  for (const Flow& f : flows(spec.pattern, ranks)) ++buffers[f.to];
  for (const auto& [rank, receives] : buffers) {
    const std::int64_t bytes = (receives + 1) * spec.message_bytes();
    if (bytes > most_buffer_bytes)
      throw DeckError(fmt::format(
          "{}: congestion.mib = {:g}: rank {} needs {} for its messages, at most {} are allowed: "
          "give smaller messages or fewer ranks",
          deck, spec.mib, rank, human_bytes(bytes), human_bytes(most_buffer_bytes)));
  }
}

}  // namespace

std::int64_t CongestionSpec::message_bytes() const {
  return std::max<std::int64_t>(1, std::llround(mib * mib_bytes));
}

std::vector<int> congested_ranks(const CongestionSpec& spec, const std::vector<std::string>& hosts,
                                 const std::string& deck) {
  std::vector<int> ranks;
  if (spec.ranks.empty() && spec.hosts.empty()) {
    for (int r = 0; r < static_cast<int>(hosts.size()); ++r) ranks.push_back(r);
  } else {
    const auto named = named_ranks(spec.ranks, spec.hosts, hosts, "congestion", deck);
    ranks.assign(named.begin(), named.end());
  }
  if (ranks.size() < 2)
    throw DeckError(fmt::format(
        "{}: congestion.ranks: traffic among {}: at least 2 ranks are needed: start more ranks, or "
        "name more of the {} of this run",
        deck, plural(std::ssize(ranks), "rank"), plural(std::ssize(hosts), "rank")));
  require_memory(spec, ranks, deck);
  return ranks;
}

std::vector<Flow> flows(TrafficPattern pattern, const std::vector<int>& ranks) {
  std::vector<Flow> all;
  const std::size_t n = ranks.size(), half = n / 2;
  if (n < 2) return all;
  switch (pattern) {
    case TrafficPattern::pairs:
      for (std::size_t i = 0; i < half; ++i) {
        all.push_back({ranks[i], ranks[half + i]});
        all.push_back({ranks[half + i], ranks[i]});
      }
      break;
    case TrafficPattern::ring:
      for (std::size_t i = 0; i < n; ++i) all.push_back({ranks[i], ranks[(i + 1) % n]});
      break;
    case TrafficPattern::all_to_all:
      for (const int from : ranks)
        for (const int to : ranks)
          if (from != to) all.push_back({from, to});
      break;
    case TrafficPattern::incast:
      for (std::size_t i = 1; i < n; ++i) all.push_back({ranks[i], ranks[0]});
      break;
  }
  return all;
}

std::string describe(const CongestionSpec& spec) {
  std::string text = fmt::format("{}, messages of {:g} MiB", to_string(spec.pattern), spec.mib);
  if (spec.gbps) text += fmt::format(", at most {:g} GB/s per rank", *spec.gbps);
  return text;
}

}  // namespace shardmark
