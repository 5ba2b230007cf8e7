// SPDX-License-Identifier: Apache-2.0
// Decks of all kinds at random: models by their sizes, by a description, by a config of Hugging
// Face or as a list; adapters and mixtures; every schedule, stage, axis and optimizer. Each choice
// is made so that it is often legal beside the others, and sometimes not.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tests/campaign/campaign.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test {

/// The parts of a deck that a campaign counts.
enum class DeckPart {
  list,
  sizes,
  description,
  config,
  experts,
  adapter,
  torch,
  muon,
  zeropp,
  tensor,
  sequence,
  expert
};
inline constexpr const char* deck_part_names[] = {"lists",   "sizes",    "descriptions", "configs",
                                                  "experts", "adapters", "torch",        "Muon",
                                                  "ZeRO++",  "AutoTP",   "Ulysses",      "AutoEP"};

/// A deck, the config that it names (null if it names none), and what it has.
struct RandomDeck {
  Json deck, config;
  std::int64_t ranks = 1;
  std::vector<DeckPart> parts;
};

/// Draws decks from the random numbers of a campaign.
class RandomDecks {
 public:
  explicit RandomDecks(Campaign& campaign);
  RandomDeck draw();

 private:
  bool chance(std::int64_t in) { return c_.random(in) == 0; }
  const char* one(const char* a, const char* b) { return chance(2) ? a : b; }
  const char* word(std::initializer_list<const char*> words) { return c_.one_of(words); }
  std::int64_t power_of_2(std::int64_t exponents) {
    return std::int64_t{1} << c_.random(exponents);
  }
  // From 1 to `most`, each size as likely as its half.
  std::int64_t log_uniform(std::int64_t most);
  // Sets a key in one of three draws.
  template<class Value>
  void maybe(Json& section, const char* key, Value value) {
    if (chance(3)) section[key] = std::move(value);
  }
  void has(DeckPart part) { drawn_.parts.push_back(part); }

  Json model();
  Json list();
  Json sizes();
  Json description();
  Json described_attention();
  Json experts();
  Json adapter();
  Json from_config();
  Json deepspeed(std::int64_t stage);
  void zeropp(Json& zero);
  void offload(Json& zero, std::int64_t stage);
  Json optimizer();
  void axes(Json& config, std::int64_t stage);
  Json torch();

  Campaign& c_;
  std::vector<Json> configs_, adapters_;
  RandomDeck drawn_;
  std::string schedule_;
  std::int64_t smaller_ = 1;  // by what the layers of most decks are fewer
  bool mixture_ = false, divided_ = false;
};

}  // namespace shardmark::test
