// SPDX-License-Identifier: Apache-2.0
// Training data: the tokens of the reference, windows of files, the structure of the chain, and the
// same global batch for every rank count.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <sys/stat.h>

#include <core/random.hpp>
#include <io/data/tokens.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::tokens_test {
namespace {

Deck deck_of(DataSource source, std::int64_t sequence, std::int64_t vocab, std::uint64_t seed) {
  Deck deck;
  deck.model.sequence = sequence;
  deck.model.vocab = vocab;
  deck.data.source = source;
  deck.data.seed = seed;
  return deck;
}

std::vector<std::int32_t> samples(const Deck& deck, std::int64_t step, std::int64_t first,
                                  std::int64_t count) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(count * (deck.model.sequence + 1)), -1);
  make_token_source(deck)->fill(step, first, count, out.data());
  return out;
}

TEST(Tokens, splitmix64_and_mix_give_known_words) {
  EXPECT_EQ(splitmix64(0), 0xE220A8397B1DCDAFu);  // the generator's first output for state 0
  EXPECT_EQ(mix(7, 3, 5), splitmix64(splitmix64((std::uint64_t{7} << 32) | 3) + 5));
}

TEST(Tokens, uniform_follows_the_reference_formula) {
  // The expected values were computed independently of this code, in exact integer arithmetic.
  const Deck deck = deck_of(DataSource::uniform, 16, 61, 7);
  const auto step0 = samples(deck, 0, 0, 2);
  const std::vector<std::int32_t> first8(step0.begin(), step0.begin() + 8);
  EXPECT_EQ(first8, (std::vector<std::int32_t>{3, 6, 38, 9, 25, 5, 51, 55}));
  EXPECT_EQ(step0[17], 13);
  EXPECT_EQ(samples(deck, 5, 3, 1)[16], 18);
}

TEST(Tokens, any_rank_count_sees_the_same_global_batch) {
  const ScratchFolder folder;
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(mix(3, 3, i) & 0xff);
  const std::string path = folder.write("t.bin", bytes);
  for (const DataSource source : {DataSource::file, DataSource::markov, DataSource::uniform}) {
    Deck deck = deck_of(source, 10, 256, 3);
    deck.data.path = path;
    const auto whole = samples(deck, 4, 0, 12);
    for (const int world : {1, 2, 3, 4}) {
      Batch batch{12, 12 / world / (12 / world > 3 ? 3 : 1), 0};
      batch.accumulation = 12 / world / batch.micro;
      std::vector<std::int32_t> joined(whole.size(), -1);
      std::set<std::int64_t> seen;
      for (int rank = 0; rank < world; ++rank)
        for (std::int64_t g = 0; g < batch.accumulation; ++g) {
          const std::int64_t first = first_sample(g, world, rank, batch.micro);
          for (std::int64_t p = 0; p < batch.micro; ++p)
            EXPECT_TRUE(seen.insert(first + p).second)
                << "sample " << first + p << ", rank " << rank;
          const auto part = samples(deck, 4, first, batch.micro);
          std::copy(part.begin(), part.end(), joined.begin() + first * 11);
        }
      EXPECT_EQ(joined, whole) << "world " << world;
    }
  }
}

TEST(Tokens, a_file_gives_windows_of_its_bytes) {
  const ScratchFolder folder;
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i);
  Deck deck = deck_of(DataSource::file, 7, 256, 11);
  deck.data.path = folder.write("t.bin", bytes);
  std::set<std::int32_t> starts;
  for (std::int64_t step = 0; step < 50; ++step) {
    const auto rows = samples(deck, step, 0, 20);
    for (std::size_t row = 0; row < 20; ++row) {
      const std::int32_t start = rows[row * 8];
      EXPECT_EQ(start, static_cast<std::int32_t>(
                           mix(11, 2'000'000 + static_cast<std::uint64_t>(step), row) % 193));
      starts.insert(start);
      for (std::int32_t t = 0; t < 8; ++t) ASSERT_EQ(rows[row * 8 + t], start + t);
    }
  }
  EXPECT_EQ(starts.size(), 193u) << "every window, the first and the last, occurs";
}

TEST(Tokens, a_file_cut_short_while_it_is_read_is_an_error) {
  const ScratchFolder folder;
  Deck deck = deck_of(DataSource::file, 7, 256, 11);
  deck.data.path = folder.write("t.bin", std::string(100, 'x'));
  const auto source = make_token_source(deck);
  std::filesystem::resize_file(deck.data.path, 0);
  std::vector<std::int32_t> out(8);
  expect_says(message_of<DeckError>([&] { source->fill(0, 0, 1, out.data()); }),
              {"data.path", deck.data.path, "shorter"});
}

TEST(Tokens, too_short_or_missing_files_are_refused) {
  const ScratchFolder folder;
  Deck deck = deck_of(DataSource::file, 7, 256, 11);
  deck.data.path = folder.write("t.bin", "12345678");
  expect_says(message_of<DeckError>([&] { make_token_source(deck); }), {"8 bytes", "more than"});
  deck.data.path = folder.path("none");
  expect_says(message_of<DeckError>([&] { make_token_source(deck); }), {"none", "No such file"});
}

// A pipe must be refused without waiting for its writer, and a device although it has no size.
TEST(Tokens, only_regular_files_have_windows_to_choose_from) {
  const ScratchFolder folder;
  Deck deck = deck_of(DataSource::file, 7, 256, 11);
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path(), std::string("/dev/zero")}) {
    deck.data.path = path;
    expect_says(message_of<DeckError>([&] { make_token_source(deck); }),
                {"data.path = \"" + path + "\"", "is not a regular file"});
  }
}

TEST(Tokens, markov_has_the_entropy_that_it_says) {
  for (const std::int64_t vocab : {1, 2, 3, 4, 5, 64, 256}) {
    const Deck deck = deck_of(DataSource::markov, 99, vocab, 5);
    const auto branches = static_cast<std::size_t>(std::min<std::int64_t>(4, vocab));
    EXPECT_DOUBLE_EQ(*make_token_source(deck)->entropy_floor(), std::log(double(branches)));
    const auto rows = samples(deck, 0, 0, 400);
    std::map<std::int32_t, std::map<std::int32_t, int>> followers;
    for (std::size_t row = 0; row < 400; ++row)
      for (std::size_t t = 0; t < 99; ++t) {
        ASSERT_GE(rows[row * 100 + t], 0);
        ASSERT_LT(rows[row * 100 + t], vocab);
        ++followers[rows[row * 100 + t]][rows[row * 100 + t + 1]];
      }
    for (const auto& [token, counts] : followers) {
      int total = 0;
      for (const auto& [next, n] : counts) total += n;
      ASSERT_LE(counts.size(), branches) << "token " << token << " of " << vocab;
      if (total < 400) continue;
      ASSERT_EQ(counts.size(), branches) << "token " << token << " of " << vocab;
      for (const auto& [next, n] : counts)
        EXPECT_NEAR(double(n) / total, 1.0 / double(branches), 0.1) << token << " -> " << next;
    }
  }
}

TEST(Tokens, steps_and_seeds_give_other_data) {
  for (const DataSource source : {DataSource::markov, DataSource::uniform}) {
    const Deck deck = deck_of(source, 32, 256, 1), other = deck_of(source, 32, 256, 2);
    EXPECT_EQ(samples(deck, 0, 0, 2), samples(deck, 0, 0, 2));
    EXPECT_NE(samples(deck, 0, 0, 2), samples(deck, 1, 0, 2));
    EXPECT_NE(samples(deck, 0, 0, 2), samples(deck, 0, 2, 2));
    EXPECT_NE(samples(deck, 0, 0, 2), samples(other, 0, 0, 2));
  }
}

}  // namespace
}  // namespace shardmark::test::tokens_test
