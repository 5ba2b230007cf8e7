// SPDX-License-Identifier: Apache-2.0
// This program computes rows as a GPU does, one warp per row. The tests check that, and what the
// host can show of teams: rows and columns that do not fill a team, and results that do not depend
// on the other rows of a team.
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/rms_norm.hpp>
#include <core/plan/model/transformer_sizes.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::warps_test {
namespace {

static_assert(std::is_same_v<kernel::Row, kernel::WarpRow>);
static_assert(std::is_same_v<kernel::Strip, kernel::TeamStrip>);

struct Warps : KernelTest {
  static Buffer<float> filled(std::int64_t elems, std::uint64_t stream) {
    Buffer<float> b(elems);
    for (std::int64_t i = 0; i < elems; ++i)
      b[i] = static_cast<float>(mix(2, stream, i) % 2001) / 1000.0f - 1.0f;
    return b;
  }
  static void expect_same_bits(const float* a, const float* b, std::int64_t elems) {
    EXPECT_EQ(std::memcmp(a, b, static_cast<std::size_t>(elems) * sizeof(float)), 0);
  }
};

TEST_F(Warps, every_row_is_visited_once) {
  for (const std::int64_t rows : {0, 1, 7, 8, 9, 100}) {
    std::vector<int> visits(static_cast<std::size_t>(rows) + 1);
    int* count = visits.data();
    kernel::for_each_row(
        ctx, "shardmark::test", rows,
        KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) { row.once([&] { ++count[r]; }); });
    for (std::int64_t r = 0; r < rows; ++r) EXPECT_EQ(count[r], 1) << r << " of " << rows;
    EXPECT_EQ(count[rows], 0);
  }
}

TEST_F(Warps, a_row_has_the_same_bits_alone_and_in_a_team) {
  const std::int64_t rows = 11, h = 300;
  const auto x = filled(rows * h, 1), weight = filled(h, 2);
  Buffer<float> all(rows * h), all_rstd(rows), y(h), rstd(1);
  rms_norm_forward(ctx, rows, h, x.data(), weight.data(), all.data(), all_rstd.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    rms_norm_forward(ctx, 1, h, x.data() + r * h, weight.data(), y.data(), rstd.data());
    expect_same_bits(y.data(), all.data() + r * h, h);
    expect_same_bits(rstd.data(), all_rstd.data() + r, 1);
  }
}

TEST_F(Warps, a_column_has_the_same_bits_in_every_strip) {
  for (const std::int64_t rows : {1, 63, 64, 65, 2048, 2200}) {
    const std::int64_t columns = 37;
    const auto dy = filled(rows * columns, 1);
    Buffer<float> all(columns), one(1), column(rows);
    bias_backward(ctx, rows, columns, dy.data(), all.data(), false);
    for (std::int64_t j = 0; j < columns; ++j) {
      double expected = 0;
      for (std::int64_t r = 0; r < rows; ++r) expected += column[r] = dy[r * columns + j];
      bias_backward(ctx, rows, 1, column.data(), one.data(), false);
      expect_same_bits(one.data(), all.data() + j, 1);
      EXPECT_NEAR(all[j], expected, 5e-5) << rows << " rows, column " << j;
    }
  }
}

// The data are integers, so sums are exact in any order, also when they are added to what was there
// before.
TEST_F(Warps, sums_over_rows_start_anew_or_go_on) {
  for (const std::int64_t rows : {0, 1, 8, 30}) {
    double sum = 5;
    auto add = [&](bool first) {
      kernel::sum_rows(
          ctx, "shardmark::test", rows, &sum, first,
          KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
            return row.sum<double>(70, [&](std::int64_t j) { return double(r * 70 + j); });
          });
    };
    const double n = 70.0 * static_cast<double>(rows), once = n * (n - 1) / 2;
    add(false);
    EXPECT_EQ(sum, 5 + once);
    add(true);
    EXPECT_EQ(sum, once);
    add(false);
    EXPECT_EQ(sum, 2 * once);
  }
}

// Rows that fill a part of a team's threads, with several per team and fewer than teams.
TEST_F(Warps, both_gradients_of_a_norm_are_those_of_two_passes) {
  for (const auto& [rows, h] :
       {std::pair<std::int64_t, std::int64_t>{1, 512}, {37, 777}, {600, 520}, {3, 1500}})
    for (const bool add : {false, true}) {
      const auto x = filled(rows * h, 1), weight = filled(h, 2), dy = filled(rows * h, 3);
      const auto dx = filled(rows * h, 4), dx_once = filled(rows * h, 4);
      const auto dweight = filled(h, 5), dweight_once = filled(h, 5);
      Buffer<float> y(rows * h), rstd(rows), sums(NormTeams::count * h + 64);
      const NormRule rule{1e-5f, 1.0f};
      rms_norm_forward(ctx, rows, h, x.data(), weight.data(), y.data(), rstd.data(), rule);
      rms_norm_input_gradient(ctx, rows, h, x.data(), rstd.data(), weight.data(), dy.data(),
                              dx.data(), add, rule);
      rms_norm_backward_params(ctx, rows, h, x.data(), rstd.data(), dy.data(), dweight.data(), add);
      ASSERT_TRUE(rms_norm_gradients(ctx, rows, h, x.data(), rstd.data(), weight.data(), dy.data(),
                                     dx_once.data(), add, dweight_once.data(), add,
                                     std::as_writable_bytes(std::span(sums.data(), sums.size())),
                                     rule));
      for (std::int64_t i = 0; i < rows * h; ++i) ASSERT_NEAR(dx_once[i], dx[i], 2e-6) << h;
      for (std::int64_t j = 0; j < h; ++j) ASSERT_NEAR(dweight_once[j], dweight[j], 5e-5) << h;
    }
}

TEST_F(Warps, both_gradients_are_left_to_two_passes_without_room_and_for_other_rows) {
  const std::int64_t rows = 4, most = NormTeams::most_columns + 1;
  const auto x = filled(rows * most, 1), weight = filled(most, 2), dx = filled(rows * most, 3);
  const auto before = filled(rows * most, 3);
  Buffer<float> rstd(rows), dweight(most), sums(rows * most + 64);
  const auto made = [&](std::int64_t h, std::int64_t room) {
    return rms_norm_gradients(ctx, rows, h, x.data(), rstd.data(), weight.data(), x.data(),
                              dx.data(), false, dweight.data(), false,
                              std::as_writable_bytes(std::span(sums.data(), room)));
  };
  EXPECT_FALSE(made(NormTeams::least_columns - 1, sums.size()));
  EXPECT_FALSE(made(most, sums.size()));
  EXPECT_FALSE(made(1024, rows * 1024 - 1));
  expect_same_bits(dx.data(), before.data(), rows * most);
}

}  // namespace
}  // namespace shardmark::test::warps_test
