// SPDX-License-Identifier: Apache-2.0
// (f) Any deck that is legal has a plan within 5 s of computing, 10 ms more per layer, with Muon
// 0.5 ms more per rank, and 1 GiB. Any other deck is refused in one line within the same bounds.
#include <algorithm>
#include <array>

#include <tests/campaign/random_deck.hpp>

namespace shardmark::test::plan_campaign_test {
namespace {

// How many of the decks that have a part were drawn, and how many were legal.
struct PartCounts {
  std::array<int, std::size(deck_part_names)> drawn{}, legal{};

  void add(const RandomDeck& deck, bool is_legal) {
    for (std::size_t p = 0; p < drawn.size(); ++p) {
      const bool has =
          std::count(deck.parts.begin(), deck.parts.end(), static_cast<DeckPart>(p)) > 0;
      drawn[p] += has ? 1 : 0;
      legal[p] += has && is_legal ? 1 : 0;
    }
  }
  void print() const {
    for (std::size_t p = 0; p < drawn.size(); ++p)
      std::printf("%s%d of %d %s", p == 0 ? "legal were " : ", ", legal[p], drawn[p],
                  deck_part_names[p]);
    std::printf("\n");
  }
};

// In seconds. A layer has up to 1000 events in a plan if each tensor has a bucket of its own, and
// Muon sends a matrix to each rank by itself.
long computing_limit_s(const RandomDeck& drawn) {
  const auto layers = static_cast<long>(drawn.deck.at("model").value("layers", 0));
  const bool muon = std::count(drawn.parts.begin(), drawn.parts.end(), DeckPart::muon) > 0;
  return 5 + layers / 100 + (muon ? static_cast<long>(drawn.ranks / 2000) : 0);
}

std::string brief(const Json& json) {
  const std::string text = json.is_null() ? "" : json.dump();
  return text.size() < 1500 ? text : text.substr(0, 1500) + " …";
}

TEST(CampaignPlan, AnyDeckIsAnsweredWithinItsBounds) {
  const Workplace place;
  Campaign campaign("plans", 120);
  RandomDecks decks(campaign);
  int legal = 0;
  PartCounts counts;
  while (campaign.more()) {
    const RandomDeck drawn = decks.draw();
    place.write("random.json", drawn.deck.dump());
    if (!drawn.config.is_null()) place.write("config.json", drawn.config.dump());
    const std::int64_t rank = campaign.random(drawn.ranks);
    const std::string what = "rank " + std::to_string(rank) + " of " + std::to_string(drawn.ranks) +
                             ": " + brief(drawn.deck) + " " + brief(drawn.config);
    campaign.run_case(what, [&] {
      const Outcome o = run({.args = {"plan", place.path("random.json"), "--ranks",
                                      std::to_string(drawn.ranks), "--rank", std::to_string(rank)},
                             .limit_s = 300,
                             .memory_limit_bytes = std::int64_t{1} << 30,
                             .cpu_limit_s = computing_limit_s(drawn),
                             .stdout_path = "/dev/null"});
      EXPECT_FALSE(o.timed_out);
      EXPECT_TRUE(o.status == 0 || o.status == 2) << o.status << " " << o.err;
      if (o.status == 2) {
        EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
      }
      legal += o.status == 0 ? 1 : 0;
      counts.add(drawn, o.status == 0);
    });
  }
  std::printf("%d of these decks were legal\n", legal);
  counts.print();
  EXPECT_GT(legal, 0);
}

}  // namespace
}  // namespace shardmark::test::plan_campaign_test
