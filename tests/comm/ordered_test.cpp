// SPDX-License-Identifier: Apache-2.0
// Sums under `ordered` are bitwise equal to the serial sum in rank order, for every operation and
// piece size, so a gradient is the same at every ZeRO stage. The same holds for 16-bit sums under
// `native`, and for all sums of the back-end `shm`.
#include <cmath>

#include <gtest/gtest.h>

#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::ordered_test {
namespace {

// Values whose sum depends on the order: different magnitudes, signs that cancel, signed zeros.
float nasty(int rank, std::int64_t i) {
  if (i % 17 == 0) return -0.0f;
  const auto h = static_cast<std::uint64_t>(i * 4 + rank + 1) * 0x9e3779b97f4a7c15u;
  const int exponent = static_cast<int>(h >> 59) - 16;
  const float mantissa = 1.0f + static_cast<float>((h >> 20) & 0xffffff) * 0x1p-24f;
  return std::ldexp((h >> 58) & 1 ? mantissa : -mantissa, exponent / 2);
}

template<class Sum>
Array serial(Dtype dtype, Reduction reduction, std::int64_t elems, int size) {
  Array result(dtype, elems), one(dtype, 1);
  for (std::int64_t i = 0; i < elems; ++i) {
    Sum sum = 0;
    for (int r = 0; r < size; ++r) {
      one.set(0, nasty(r, i));
      const Sum v = static_cast<Sum>(one.get(0));
      sum = r == 0 ? v : sum + v;
    }
    if (reduction == Reduction::average) sum /= static_cast<Sum>(size);
    result.set(i, sum);
  }
  return result;
}

class Ordered : public ::testing::TestWithParam<Dtype> {};

TEST_P(Ordered, every_operation_and_piece_size_gives_the_serial_sum_in_rank_order) {
  const Dtype dtype = GetParam();
  const int size = world_size(), rank = world_rank();
  const bool both = dtype == Dtype::bf16 || dtype == Dtype::fp16;
  for (const TestedBackend& backend : tested_backends())
    for (Reductions reductions : {Reductions::ordered, Reductions::native})
      for (std::int64_t piece_bytes : {std::int64_t{60}, std::int64_t{1} << 20}) {
        if (reductions == Reductions::native && !both && backend != Backend::shm) continue;
        CommOptions options = make_options(reductions);
        options.mpi.piece_bytes = options.shm.buffer_bytes = piece_bytes;
        options.node.most_piece_bytes = options.node.least_piece_bytes = piece_bytes;
        const auto comm = make_world(options, backend);
        for (Reduction reduction : {Reduction::sum, Reduction::average}) {
          const std::int64_t shard = 331, elems = shard * size;
          const Array want = dtype == Dtype::fp64 ? serial<double>(dtype, reduction, elems, size)
                                                  : serial<float>(dtype, reduction, elems, size);
          for (Op op : {Op::all_reduce, Op::reduce_scatter, Op::reduce}) {
            SCOPED_TRACE(std::string(to_string(op)) + ", pieces of " + std::to_string(piece_bytes));
            Array send(dtype, elems);
            for (std::int64_t i = 0; i < elems; ++i) send.set(i, nasty(rank, i));
            Collective c;
            c.op = op, c.dtype = dtype, c.reduction = reduction, c.elems = elems, c.root = size - 1;
            c.send = send.at(0);
            const std::int64_t first = op == Op::reduce_scatter ? rank * shard : 0;
            const std::int64_t count = op == Op::reduce_scatter ? shard : elems;
            c.recv = send.at(first);
            const auto scratch = bring_scratch(c, size, options);
            run(*comm, c);
            if (op == Op::reduce && rank != c.root) continue;
            ASSERT_EQ(std::memcmp(send.at(first), want.at(first),
                                  static_cast<std::size_t>(count * dtype_bytes(dtype))),
                      0);
          }
        }
      }
}
INSTANTIATE_TEST_SUITE_P(comm, Ordered,
                         ::testing::Values(Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

TEST(Ordered, another_order_would_change_the_sums) {
  int differ = 0;
  for (std::int64_t i = 0; i < 400; ++i) {
    float up = nasty(0, i), down = nasty(2, i);
    for (int r : {1, 2}) up += nasty(r, i);
    for (int r : {1, 0}) down += nasty(r, i);
    differ += up != down;
  }
  EXPECT_GT(differ, 20);
}

}  // namespace
}  // namespace shardmark::test::ordered_test
