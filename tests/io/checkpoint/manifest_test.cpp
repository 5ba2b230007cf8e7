// SPDX-License-Identifier: Apache-2.0
// The manifest: what was written is read back, and no other text is accepted.
#include <io/checkpoint/manifest.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::manifest_test {
namespace {

Manifest sample(Dtype dtype) {
  Manifest m;
  m.position = {10, 9, {1024.0, 1, 10, 7}};
  m.samples = 80;
  m.world = 2, m.stage = 3, m.schedule = "paper", m.model_dtype = dtype;
  m.params = {{"a", 6, {2, 3}}, {"b", 4, {4}}};
  m.files = {{"x.h5", 100, {1, 2, 3, 4}}, {"y.h5", 200, {5, 6, 7, 8}}};
  CheckpointPart first, second, third;
  first.elems = 5, first.map = {{0, 5}}, first.digest = {1, 2, 3, ~std::uint64_t{0}};
  second.rank = 1, second.file = 1, second.elems = 2, second.map = {{8, 2}};
  third.rank = 2, third.file = 1, third.offset = 2, third.elems = 3, third.map = {{5, 3}};
  m.parts = {first, second, third};
  m.deck = R"({"run": {"steps": 3}})";
  m.versions = {{"shardmark", "0.1.0"}};
  return m;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, what_is_written_is_read) {
  for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Manifest m = sample(dtype), back = parse_manifest(write_manifest(m), "m");
    EXPECT_EQ(back.position, m.position);
    EXPECT_EQ(back.samples, 80);
    EXPECT_EQ(back.params, m.params);
    EXPECT_EQ(back.model_dtype, dtype);
    EXPECT_EQ(back.files[1].bytes, 200);
    EXPECT_EQ(back.files[1].first_byte[1], 6);
    ASSERT_EQ(back.parts.size(), 3U);
    EXPECT_EQ(back.parts[2].map, m.parts[2].map);
    EXPECT_EQ(back.parts[0].digest[3], ~std::uint64_t{0});
    EXPECT_EQ(back.parts[2].first_block, 1);  // after that of the second part
    EXPECT_EQ(back.elems(), 10);
    EXPECT_EQ(back.state_bytes(), dtype == Dtype::fp32 ? 120 : 140);
    EXPECT_EQ(write_manifest(back), write_manifest(m));
  }
}

TEST(Manifest, a_newer_format_is_refused_in_words) {
  const std::string text =
      replaced(write_manifest(sample(Dtype::fp32)), "\"format\":1", "\"format\":3");
  expect_says(message_of<IoError>([&] { parse_manifest(text, "there/manifest.json"); }),
              {"there/manifest.json", "format 3", "up to 2", "newer ShardMark"});
}

TEST(Manifest, any_changed_character_is_noticed) {
  const std::string text = write_manifest(sample(Dtype::bf16));
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '1' ? '2' : '1';
    try {  // white space is the only thing that may change
      const Manifest m = parse_manifest(changed, "m");
      EXPECT_EQ(write_manifest(m), text) << "at " << i;
    } catch (const IoError&) {
    }
    EXPECT_THROW(parse_manifest(text.substr(0, i), "m"), IoError) << "cut at " << i;
  }
}

TEST(Manifest, parts_must_cover_the_model_once) {
  const auto refused = [](auto change) {
    Manifest m = sample(Dtype::fp32);
    change(m);
    expect_says(message_of<IoError>([&] { parse_manifest(write_manifest(m), "m"); }),
                {"m: is damaged"});
  };
  refused([](Manifest& m) { m.parts.pop_back(); });
  refused([](Manifest& m) { m.parts[0].map = {{1, 5}}; });
  refused([](Manifest& m) { m.parts[0].map = {{0, 4}}; });
  refused([](Manifest& m) { m.parts[1].map = {{7, 2}}; });
  refused([](Manifest& m) { m.parts[2].offset = 3; });
  refused([](Manifest& m) { m.parts[2].file = 2; });
  refused([](Manifest& m) { m.files[0].name = "../x.h5"; });
}

// The model of `sample` on two ranks that divide a, by rows, and have all of b.
Manifest divided() {
  Manifest m = sample(Dtype::fp32);
  m.params = {{"a", 8, {2, 4}}, {"b", 4, {4}}};
  m.views = {{{0, 4, {0, 2, 4}}, {1, 4, {}}}, {{0, 4, {2, 2, 4}}, {1, 4, {}}}};
  CheckpointPart first = m.parts[0], second = m.parts[0];
  first.elems = 6, first.map = {{0, 6}};
  second.rank = second.view = second.file = 1;
  second.elems = 6, second.map = {{0, 4}, {6, 2}};
  m.parts = {first, second};
  return m;
}

TEST(Manifest, parts_of_a_model_are_read_with_what_they_are_of_the_whole) {
  const Manifest m = divided(), back = parse_manifest(write_manifest(m), "m");
  EXPECT_EQ(back.views, m.views);
  EXPECT_EQ(back.parts[1].view, 1);
  EXPECT_EQ(back.elems(), 12);
  EXPECT_EQ(write_manifest(back), write_manifest(m));
  EXPECT_NE(write_manifest(m).find("\"format\":2"), std::string::npos);
  EXPECT_NE(write_manifest(sample(Dtype::fp32)).find("\"format\":1"), std::string::npos)
      << "older programs read checkpoints without divided parameters";
}

TEST(Manifest, pieces_must_cover_each_parameter_once) {
  const auto refused = [](auto change) {
    Manifest m = divided();
    change(m);
    expect_says(message_of<IoError>([&] { parse_manifest(write_manifest(m), "m"); }),
                {"m: is damaged"});
  };
  refused([](Manifest& m) { m.views[1][0].slice.first = 0; });  // twice the same piece
  refused([](Manifest& m) { m.views[1][0].slice.first = 1; });  // pieces overlap
  refused([](Manifest& m) { m.views[1][0].slice.first = 3; });  // beyond the end of a row
  refused([](Manifest& m) { m.views[1][0].slice.first = 8; });  // beyond the parameter
  refused([](Manifest& m) { m.views[1][0].slice.width = 1; });  // lacks columns
  refused([](Manifest& m) { m.views[1][0].slice.width = 3; });
  refused([](Manifest& m) { m.views[1][0].slice.pitch = 3; });  // no rows of the parameter
  refused([](Manifest& m) { m.views[1][0].slice.pitch = 8; });  // other rows than the first piece
  refused([](Manifest& m) { m.views[1][0].elems = 2; });        // lacks a row
  refused([](Manifest& m) { m.views[1][0].param = 1; });
  refused([](Manifest& m) { m.views[1][0].param = 2; });
  refused([](Manifest& m) { m.views[1].pop_back(); });
  refused([](Manifest& m) { m.views[1].clear(); });
  refused([](Manifest& m) { m.parts[1].view = 0; });
  refused([](Manifest& m) { m.parts[1].view = 2; });
  refused([](Manifest& m) { m.parts[1].map = {{0, 4}, {5, 2}}; });  // an element of b twice
  refused([](Manifest& m) { m.parts[1].map = {{0, 4}, {7, 2}}; });  // beyond the part of the model
}

}  // namespace
}  // namespace shardmark::test::manifest_test
