// SPDX-License-Identifier: Apache-2.0
// Rule: whatever pieces of a parameter were written, a reader of any other pieces finds each of its
// elements where it is stored, and elements that lie together in one go. Pieces that leave out an
// element of the parameter or have it twice are refused, with the element.
#include <gtest/gtest.h>

#include <io/checkpoint/stored_layout.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::stored_layout_test {
namespace {

constexpr std::int64_t rows = 6, columns = 8, other = 5;  // a parameter, and one after it

// The views of ranks that divide the parameter, each of which has all of the other one, by columns
// of its tensor, by rows, in halves of rows, or in no way.
ModelView view(std::int64_t elems, const TensorSlice& slice) {
  return {{0, elems, slice}, {1, other, {}}};
}
std::vector<std::vector<ModelView>> meshes() {
  std::vector<ModelView> by_column, by_row, by_both;
  for (std::int64_t r = 0; r < 4; ++r) by_column.push_back(view(12, {2 * r, 2, columns}));
  for (std::int64_t r = 0; r < 3; ++r) by_row.push_back(view(16, {16 * r, 16, 48}));
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t c = 0; c < 2; ++c) by_both.push_back(view(12, {r * 24 + c * 4, 4, columns}));
  return {by_column, by_row, by_both, {view(48, {})}};
}

// The parts of ranks with these views. Each writes its piece in two ranges, the second one first,
// and the first rank the other parameter.
Manifest written(const std::vector<ModelView>& views) {
  Manifest m;
  m.params = {{"a", rows * columns, {rows, columns}}, {"b", other, {other}}};
  m.views = views;
  for (std::size_t r = 0; r < views.size(); ++r) {
    CheckpointPart part;
    part.view = static_cast<int>(r);
    const std::int64_t elems = views[r][0].elems;
    part.map = {{5, elems - 5 + (r == 0 ? other : 0)}, {0, 5}};
    part.elems = elems + (r == 0 ? other : 0);
    m.parts.push_back(part);
  }
  return m;
}

// The element of both parameters that element `i` of a view is.
std::int64_t whole(const ModelView& v, std::int64_t i) {
  if (i >= v[0].elems) return rows * columns + i - v[0].elems;
  const TensorSlice& s = v[0].slice;
  return s.cuts() ? s.first + i / s.width * s.pitch + i % s.width : i;
}
// The element that is stored at element `at` of a part.
std::int64_t stored(const Manifest& m, const StoredRange& range, std::int64_t i) {
  const CheckpointPart& part = m.parts[static_cast<std::size_t>(range.part)];
  std::int64_t at = range.at + i;
  for (const ElementRange& r : part.map) {
    if (at < r.elems) return whole(m.views[static_cast<std::size_t>(part.view)], r.first + at);
    at -= r.elems;
  }
  return -1;
}

TEST(StoredLayout, FindsEachElementOfAnyReader) {
  for (const std::vector<ModelView>& writers : meshes()) {
    const Manifest m = written(writers);
    for (const std::vector<ModelView>& readers : meshes())
      for (const ModelView& reader : readers) {
        const StoredLayout layout(m, reader);
        const std::int64_t all = reader[0].elems + other;
        for (std::int64_t first = 0; first < all; ++first)
          for (std::int64_t elems = 1; first + elems <= all; ++elems) {
            std::int64_t next = first;
            layout.find(first, elems, [&](const StoredRange& range) {
              ASSERT_EQ(range.first, next);
              for (std::int64_t i = 0; i < range.elems; ++i)
                ASSERT_EQ(stored(m, range, i), whole(reader, range.first + i));
              next += range.elems;
            });
            ASSERT_EQ(next, first + elems);
          }
      }
  }
}

TEST(StoredLayout, FindsWhatItsOwnMeshWroteInOneRangePerRangeThatWasWritten) {
  for (const std::vector<ModelView>& views : meshes()) {
    const Manifest m = written(views);
    for (const ModelView& reader : views) {
      int ranges = 0;
      StoredLayout(m, reader).find(0, reader[0].elems, [&](const StoredRange&) { ++ranges; });
      EXPECT_EQ(ranges, 2);
    }
  }
}

// In all of these, the pieces have as many elements as the parameter.
TEST(StoredLayout, RefusesPiecesThatAreNoPartitionOfTheParameter) {
  const struct {
    const char* what;
    std::vector<ModelView> views;
    const char* element;
  } cases[] = {
      {"a row twice", {view(24, {0, 8, 8}), view(24, {16, 8, 8})}, "element 24"},
      {"without the first row", {view(24, {8, 8, 8}), view(24, {24, 8, 8})}, "element 0"},
      {"without the first column", {view(24, {1, 4, 8}), view(24, {4, 4, 8})}, "element 0"},
      {"a column twice", {view(24, {0, 4, 8}), view(24, {3, 4, 8})}, "element 4"},
      {"rows of two widths",
       {view(12, {0, 4, 8}), view(24, {24, 8, 8}), view(12, {4, 4, 8})},
       "element 24"},
      {"rows of two tensors",
       {view(8, {0, 8, 8}), view(16, {16, 8, 16}), view(24, {8, 8, 16})},
       "element 8"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(message_of<std::invalid_argument>([&] {
                StoredLayout{written(c.views), {}};
              }),
              c.element)
        << c.what;
}

}  // namespace
}  // namespace shardmark::test::stored_layout_test
