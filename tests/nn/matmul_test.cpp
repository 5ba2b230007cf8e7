// SPDX-License-Identifier: Apache-2.0
// Matrix products against a plain double loop: all transpositions, odd sizes, strides, batches,
// biases and accumulation, products in packed pieces; and the scratch cap, which is an error to
// exceed.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/nn/matmul.hpp>
#include <tests/nn/single_process.hpp>

namespace shardmark {
namespace {

using shardmark::testing::Buffer;

constexpr std::int64_t cap = std::int64_t{16} << 20;

float value(std::uint64_t stream, std::int64_t i) {
  return static_cast<float>(mix(1, stream, i) % 2001) / 1000.0f - 1.0f;
}

Buffer<float> filled(std::int64_t elems, std::uint64_t stream) {
  Buffer<float> b(elems);
  for (std::int64_t i = 0; i < elems; ++i) b[i] = value(stream, i);
  return b;
}

void check(MatMulShape s) {
  SCOPED_TRACE(::testing::Message() << s.m << " x " << s.n << " x " << s.k << " ta "
                                    << s.transpose_a << " tb " << s.transpose_b << " add "
                                    << s.accumulate << " bias " << s.bias << " batch " << s.batch);
  const std::int64_t rows_a = s.transpose_a ? s.k : s.m, rows_b = s.transpose_b ? s.n : s.k;
  const auto a = filled(s.batch * s.stride_a + rows_a * s.lda, 1);
  const auto b = filled(s.batch * s.stride_b + rows_b * s.ldb, 2);
  const auto before = filled(s.batch * s.stride_c + s.m * s.ldc, 3);
  const auto bias = filled(s.n, 4);
  const auto c = filled(before.size(), 3);
  Buffer<std::byte> scratch(cap);
  MatMul matmul(cap);
  matmul(Space(), s, a.data(), b.data(), c.data(), s.bias ? bias.data() : nullptr,
         {scratch.data(), static_cast<std::size_t>(cap)});
  std::vector<char> written(c.size(), 0);
  for (std::int64_t batch = 0; batch < s.batch; ++batch)
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::int64_t at = batch * s.stride_c + i * s.ldc + j;
        double sum = (s.accumulate ? before[at] : 0.0) + (s.bias ? bias[j] : 0.0);
        for (std::int64_t k = 0; k < s.k; ++k)
          sum += double(a[batch * s.stride_a + (s.transpose_a ? k * s.lda + i : i * s.lda + k)]) *
                 b[batch * s.stride_b + (s.transpose_b ? j * s.ldb + k : k * s.ldb + j)];
        ASSERT_NEAR(c[at], sum, 1e-6 * static_cast<double>(s.k) + 1e-5) << i << ", " << j;
        written[at] = 1;
      }
  for (std::int64_t at = 0; at < c.size(); ++at)
    ASSERT_TRUE(written[at] || c[at] == before[at]) << "written outside of C at " << at;
}

TEST(matmul, equals_a_plain_loop) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const bool bias : {false, true}) {
          const std::int64_t m = 65, n = 131, k = 77;  // n * k: packed where B is stored [k][n]
          check({m, n, k, ta, tb, (ta ? m : k) + 3, (tb ? k : n) + 5, n + 7, accumulate, bias});
          check({5, 3, 2, ta, tb, ta ? 5 : 2, tb ? 2 : 3, 3, accumulate, bias});
        }
}

TEST(matmul, equals_a_plain_loop_in_several_packed_pieces) {
  for (const bool accumulate : {false, true})  // pieces of k
    check({64, 70, 20000, false, false, 20000, 70, 70, accumulate, true});
  check({64, 3100, 768, false, false, 768, 3100, 3100, false, true});  // pieces of n
}

TEST(matmul, equals_a_plain_loop_in_batches) {
  check({7, 9, 5, false, true, 15, 15, 11, false, false, 3, 5, 5, 7 * 11});
  check({9, 5, 7, true, false, 11, 15, 15, true, false, 3, 7 * 11, 5, 5});
}

TEST(matmul, more_scratch_than_the_cap_is_a_memory_error_that_names_shape_and_bytes) {
  MatMul matmul(32);
  Buffer<float> a(256 * 256), c(256 * 256);
  Buffer<std::byte> scratch(64);
  const MatMulShape s{256, 256, 256, true, false, 256, 256, 256};
  try {
    matmul(Space(), s, a.data(), a.data(), c.data(), nullptr, {scratch.data(), 64});
    FAIL() << "no product of this size works without scratch";
  } catch (const MemoryError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("256 x 256 x 256"), std::string::npos) << what;
    EXPECT_NE(what.find("the cap is 32"), std::string::npos) << what;
  }
}

TEST(matmul, less_scratch_than_a_product_needs_is_a_memory_error) {
  MatMul matmul(cap);
  Buffer<float> a(256 * 256), c(256 * 256);
  const MatMulShape s{256, 256, 256, true, false, 256, 256, 256};
  EXPECT_THROW(matmul(Space(), s, a.data(), a.data(), c.data(), nullptr, {}), MemoryError);
}

TEST(matmul, counts_and_records_what_was_asked_for) {
  MatMul matmul(cap);
  Buffer<float> a = filled(70000, 1), c(70000);
  Buffer<std::byte> scratch(cap);
  const MatMulShape s{5, 3, 2, false, false, 2, 3, 3};
  auto run = [&] {
    matmul(Space(), s, a.data(), a.data(), c.data(), nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)});
  };
  run();
  matmul.record(true);
  run();
  EXPECT_EQ(matmul.calls(), 2);
  EXPECT_EQ(matmul.flops(), 2 * 60.0);
  EXPECT_GT(matmul.matmul_ns(), 0);
  ASSERT_EQ(matmul.recorded().size(), 1u);
  EXPECT_EQ(matmul.recorded()[0], s);
}

}  // namespace
}  // namespace shardmark
