// SPDX-License-Identifier: Apache-2.0
// Rules: a pattern says who sends to whom, each sends as often as the pattern asks, nobody to
// itself, and what a run cannot do is refused.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/deck/congestion.hpp>

namespace shardmark::test::congestion_test {
namespace {

const std::vector<std::string> hosts{"a", "a", "b", "b", "c"};

std::set<std::pair<int, int>> pairs_of(TrafficPattern pattern, const std::vector<int>& ranks) {
  std::set<std::pair<int, int>> found;
  for (const Flow& f : flows(pattern, ranks)) {
    EXPECT_NE(f.from, f.to);
    EXPECT_TRUE(found.insert({f.from, f.to}).second) << "twice";
  }
  return found;
}

using Pairs = std::set<std::pair<int, int>>;

TEST(Congestion, has_the_flows_of_its_pattern) {
  const std::vector<int> ranks{1, 3, 4, 7};
  EXPECT_EQ(pairs_of(TrafficPattern::pairs, ranks), (Pairs{{1, 4}, {4, 1}, {3, 7}, {7, 3}}));
  EXPECT_EQ(pairs_of(TrafficPattern::ring, ranks), (Pairs{{1, 3}, {3, 4}, {4, 7}, {7, 1}}));
  EXPECT_EQ(pairs_of(TrafficPattern::incast, ranks), (Pairs{{3, 1}, {4, 1}, {7, 1}}));
  EXPECT_EQ(pairs_of(TrafficPattern::all_to_all, ranks).size(), 12u);
  EXPECT_EQ(pairs_of(TrafficPattern::pairs, {0, 1, 2}), (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(pairs_of(TrafficPattern::ring, {0, 1}), (Pairs{{0, 1}, {1, 0}}));
}

TEST(Congestion, is_between_the_ranks_that_the_deck_names) {
  CongestionSpec spec;
  EXPECT_EQ(congested_ranks(spec, hosts, "d"), (std::vector{0, 1, 2, 3, 4}));
  spec.hosts = {"b"}, spec.ranks = {0};
  EXPECT_EQ(congested_ranks(spec, hosts, "d"), (std::vector{0, 2, 3}));
}

std::string refusal(const CongestionSpec& spec, const std::vector<std::string>& on = hosts) {
  try {
    congested_ranks(spec, on, "d.json");
  } catch (const DeckError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Congestion, refuses_what_a_run_cannot_do) {
  CongestionSpec spec;
  EXPECT_NE(refusal(spec, {"a"}).find("d.json: congestion.ranks: traffic among 1 rank: at least 2"),
            std::string::npos);
  spec.ranks = {0, 5};
  EXPECT_NE(refusal(spec).find("congestion.ranks = 5: must be a rank of this run, from 0 to 4"),
            std::string::npos);
  spec = {}, spec.hosts = {"x"};
  EXPECT_NE(refusal(spec).find("congestion.hosts = \"x\""), std::string::npos);
  spec = {}, spec.mib = 1024, spec.pattern = TrafficPattern::incast;
  EXPECT_NE(refusal(spec).find("congestion.mib = 1024: rank 0 needs 5 GiB"), std::string::npos)
      << refusal(spec);
  spec.pattern = TrafficPattern::ring;
  EXPECT_EQ(refusal(spec), "accepted");
}

TEST(Congestion, is_described_in_a_few_words) {
  CongestionSpec spec;
  EXPECT_EQ(spec.message_bytes(), 1 << 20);
  EXPECT_EQ(describe(spec), "pairs, messages of 1 MiB");
  spec.pattern = TrafficPattern::all_to_all, spec.mib = 0.5, spec.gbps = 2;
  EXPECT_EQ(describe(spec), "all_to_all, messages of 0.5 MiB, at most 2 GB/s per rank");
  spec.mib = 1e-9;
  EXPECT_EQ(spec.message_bytes(), 1);
}

}  // namespace
}  // namespace shardmark::test::congestion_test
