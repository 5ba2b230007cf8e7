// SPDX-License-Identifier: Apache-2.0
// Random changes of good decks: the result is a Deck or a DeckError of one line, and never anything
// else.
#include <iterator>

#include <core/random.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deck_fuzz_test {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : seed_(seed) {}

  std::string mutate(std::string text) {
    const int changes = 1 + static_cast<int>(next(3));
    for (int i = 0; i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  std::uint64_t next(std::uint64_t bound) { return mix(seed_, 1, count_++) % bound; }

  void change(std::string& text) {
    static constexpr const char* pieces[] = {
        "{",       "}",    "[",        "]",     ",",
        ":",       "\"",   "-",        "1e400", "99999999999999999999",
        "null",    "true", "\"auto\"", "0",     "-1",
        "0.5",     "[]",   "{}",       "//",    "/*",
        "\\u0000", "\xff", "\n",       "#"};
    const auto at = next(text.size());
    switch (next(5)) {
      case 0: text[at] = static_cast<char>(next(256)); break;
      case 1: text.erase(at, 1 + next(12)); break;
      case 2: text.insert(at, pieces[next(std::size(pieces))]); break;
      case 3: text.insert(at, text.substr(next(text.size()), next(30))); break;
      default: replace_value(text, at, pieces[next(std::size(pieces))]); break;
    }
  }

  // Replaces the value after the first colon from `at` on by `piece`: the text is still JSON, but a
  // type or size is wrong.
  static void replace_value(std::string& text, std::size_t at, const char* piece) {
    const auto colon = text.find(':', at);
    if (colon == std::string::npos) return;
    const auto end = text.find_first_of(",}]", colon);
    if (end != std::string::npos) text.replace(colon + 1, end - colon - 1, piece);
  }

  std::uint64_t seed_, count_ = 0;
};

TEST(DeckFuzz, a_deck_or_a_deck_error) {
  const ScratchFolder folder;
  const std::string list =
      R"({"model": {"family": "list", "modules": [{"name": "a", "numels": [3, 4]},
      {"name": "b", "numels": [3, 4]}], "tied": [["b", "a"]], "gradient_ready_order": [1, 0],
      "visits": ["f+a"], "param_groups": [[0], [1]]}, "run": {"steps": 1, "compute": "none"},
      "deepspeed": {"train_batch_size": 2, "zero_optimization": {"stage": 2, "overlap_comm": null,
      "offload_optimizer": {"device": "none"}}, "bf16": {"enabled": "auto"}}})";
  int sound = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = Mutator(seed).mutate(seed % 2 ? std::string(good_deck) : list);
    const std::string path = folder.write("f.json", text);
    try {
      (void)read_deck(path, {}, DeckUse::plan);
      ++sound;
    } catch (const DeckError& error) {
      const std::string message = error.what();
      ++refused;
      ASSERT_NE(message.find("f.json"), std::string::npos) << "seed " << seed << ": " << message;
      ASSERT_EQ(message.find('\n'), std::string::npos) << "seed " << seed << ": " << message;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(sound, 20);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace shardmark::test::deck_fuzz_test
