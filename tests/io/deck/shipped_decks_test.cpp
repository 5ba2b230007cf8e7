// SPDX-License-Identifier: Apache-2.0
// What may be the name of a shipped deck, and where such a deck writes. The program of these tests
// lies beside no decks; decks_command_test.cpp uses them.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/keys/origin.hpp>

namespace shardmark::test::shipped_decks_test {
namespace {

TEST(ShippedDecks, APathIsTakenAsItIs) {
  for (const char* path : {"gpt-tiny-z3.json", "inputs/gpt-tiny-z3", "./gpt-tiny-z3", "/no/deck"}) {
    EXPECT_EQ(find_deck(path).path, path);
    EXPECT_FALSE(find_deck(path).by_name);
  }
}

TEST(ShippedDecks, AnUnknownNameIsRefused) {
  EXPECT_THROW(find_deck("no-deck-has-this-name"), DeckError);
}

TEST(ShippedDecks, AShippedDeckWritesBelowTheCurrentFolder) {
  const Origin shipped("/usr/share/shardmark/inputs/a.json", true);
  EXPECT_EQ(shipped.resolve("text.txt"), "/usr/share/shardmark/inputs/text.txt");
  EXPECT_EQ(shipped.resolve_output("../shardmark-checkpoints"), "shardmark-checkpoints");
  EXPECT_EQ(shipped.resolve_output("/tmp/me"), "/tmp/me");
  const Origin given("decks/a.json");
  EXPECT_EQ(given.resolve_output("out"), "decks/out");
}

}  // namespace
}  // namespace shardmark::test::shipped_decks_test
