// SPDX-License-Identifier: Apache-2.0
// The scratch that the plan reserves is what a collective needs: none if the library sums in place,
// never more than the cap, and enough for whole pieces at any size.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/collective_scratch.hpp>

namespace shardmark::test::collective_scratch_test {
namespace {

constexpr std::int64_t cap = 64 << 20;

TEST(Scratch, is_needed_only_where_contributions_are_laid_side_by_side) {
  const auto bytes = [](Op op, Dtype dtype, Reductions r) {
    return collective_scratch_bytes(op, dtype, 3000, 3, r, cap);
  };
  for (Op op : {Op::all_gather, Op::broadcast, Op::all_to_all, Op::barrier})
    for (Reductions r : {Reductions::native, Reductions::ordered})
      EXPECT_EQ(bytes(op, Dtype::bf16, r), 0);
  EXPECT_EQ(bytes(Op::all_reduce, Dtype::fp32, Reductions::native), 0);
  EXPECT_EQ(bytes(Op::reduce, Dtype::fp32, Reductions::native), 0);
  EXPECT_EQ(bytes(Op::reduce_scatter, Dtype::fp32, Reductions::native), 12000);
  EXPECT_EQ(bytes(Op::reduce_scatter, Dtype::fp32, Reductions::ordered), 12000);
  EXPECT_EQ(bytes(Op::all_reduce, Dtype::fp32, Reductions::ordered), 12000);
  EXPECT_EQ(bytes(Op::reduce, Dtype::fp32, Reductions::ordered), 36000);  // all data of every rank
  EXPECT_EQ(bytes(Op::all_reduce, Dtype::bf16, Reductions::native), 6000);
  // Integer sums do not depend on the order.
  EXPECT_EQ(bytes(Op::all_reduce, Dtype::int64, Reductions::ordered), 0);
}

TEST(Scratch, of_one_rank_or_of_nothing_is_none) {
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce}) {
    EXPECT_EQ(collective_scratch_bytes(op, Dtype::fp32, 99, 1, Reductions::ordered, cap), 0);
    EXPECT_EQ(collective_scratch_bytes(op, Dtype::fp32, 0, 4, Reductions::ordered, cap), 0);
  }
}

TEST(Scratch, stays_under_the_cap_and_holds_whole_pieces) {
  for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce})
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp64})
      for (int size : {2, 3, 4, 1000, 16384})
        for (std::int64_t shard : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 40})
          for (std::int64_t limit : {std::int64_t{16384} * 8, std::int64_t{16384} * 20, cap}) {
            const std::int64_t elems = shard * size;
            const std::int64_t bytes =
                collective_scratch_bytes(op, dtype, elems, size, Reductions::ordered, limit);
            const std::int64_t piece =
                piece_elems(op, dtype, elems, size, Reductions::ordered, limit);
            const std::int64_t row_bytes = piece * size * dtype_bytes(dtype);
            ASSERT_LE(bytes, limit);
            ASSERT_GE(bytes, row_bytes);
            ASSERT_EQ(bytes % row_bytes, 0);
            ASSERT_LE(bytes / row_bytes, pieces_in_flight);
            ASSERT_LE(piece * dtype_bytes(dtype), default_piece_bytes);
          }
}

TEST(Scratch, has_an_area_for_each_piece_in_flight) {
  const std::int64_t part = default_piece_bytes / 4;
  const auto bytes = [&](std::int64_t parts) {
    return collective_scratch_bytes(Op::reduce_scatter, Dtype::fp32, 2 * part * parts, 2,
                                    Reductions::native, cap);
  };
  EXPECT_EQ(bytes(1), 2 * default_piece_bytes);
  EXPECT_EQ(bytes(2), 4 * default_piece_bytes);
  EXPECT_EQ(bytes(100), 4 * default_piece_bytes);
}

TEST(Scratch, refuses_a_cap_without_room_for_one_element_of_each_rank) {
  EXPECT_THROW(collective_scratch_bytes(Op::all_reduce, Dtype::fp32, 8, 4, Reductions::ordered, 15),
               PlanError);
  EXPECT_EQ(collective_scratch_bytes(Op::all_reduce, Dtype::fp32, 8, 4, Reductions::ordered, 16),
            16);
}

TEST(Scratch, refuses_counts_that_leave_63_bits) {
  EXPECT_THROW(
      collective_scratch_bytes(Op::all_reduce, Dtype::fp32, INT64_MAX, 4, Reductions::ordered, cap),
      PlanError);
}

}  // namespace
}  // namespace shardmark::test::collective_scratch_test
