// SPDX-License-Identifier: Apache-2.0
// Matrix products on the host: exceeding the scratch cap is an error, and calls and time are
// counted, and the number of prepared products is bounded.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/nn/products/matmul.hpp>
#include <tests/core/nn/models/single_process.hpp>
#include <tests/core/nn/products/all_bf16_products.hpp>

namespace shardmark::test::matmul_test {
namespace {

constexpr std::int64_t cap = std::int64_t{16} << 20;

TEST(matmul, a_result_of_another_16_bit_type_is_refused) {
  MatMul matmul(cap);
  Buffer<Bf16> a(4), c(4);
  MatMulShape s{2, 2, 2, false, false, 2, 2, 2};
  s.type = Dtype::bf16, s.c_type = Dtype::fp16;
  EXPECT_THROW(matmul(Space(), s, a.data(), a.data(), c.data(), nullptr, {}), PlanError);
}

TEST(matmul, more_scratch_than_the_cap_is_a_memory_error_that_names_shape_and_bytes) {
  if (on_a_gpu) GTEST_SKIP() << "cuBLASLt multiplies without scratch, too";
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
    EXPECT_NE(what.find("at most the cap of 32"), std::string::npos) << what;
  }
}

TEST(matmul, less_scratch_than_a_product_needs_is_a_memory_error) {
  if (on_a_gpu) GTEST_SKIP() << "cuBLASLt multiplies without scratch, too";
  MatMul matmul(cap);
  Buffer<float> a(256 * 256), c(256 * 256);
  const MatMulShape s{256, 256, 256, true, false, 256, 256, 256};
  EXPECT_THROW(matmul(Space(), s, a.data(), a.data(), c.data(), nullptr, {}), MemoryError);
  MatMulShape wide = s;
  wide.type = wide.c_type = Dtype::fp16;
  EXPECT_THROW(matmul(Space(), wide, a.data(), a.data(), c.data(), nullptr, {}), MemoryError);
}

TEST(matmul, counts_and_records_what_was_asked_for) {
  MatMul matmul(cap);
  Buffer<float> a(70000), c(70000);
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

// Where routing is learned, an expert has another number of rows in each step.
TEST(matmul, prepared_products_of_the_last_512_shapes_are_kept) {
  if (on_a_gpu) GTEST_SKIP() << "cuBLASLt prepares nothing of that size";
  MatMul matmul(cap);
  Buffer<float> a(700 * 2), c(700 * 2);
  Buffer<std::byte> scratch(cap);
  const auto is_prepared_anew = [&](std::int64_t rows) {
    const std::int64_t before = matmul.prepare_ns();
    matmul(Space(), {rows, 2, 2, false, false, 2, 2, 2}, a.data(), a.data(), c.data(), nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)});
    return matmul.prepare_ns() > before;
  };
  for (std::int64_t rows = 1; rows <= 513; ++rows) EXPECT_TRUE(is_prepared_anew(rows));
  EXPECT_FALSE(is_prepared_anew(2));
  EXPECT_TRUE(is_prepared_anew(1));
  EXPECT_FALSE(is_prepared_anew(2)) << "used after the third shape";
}

}  // namespace
}  // namespace shardmark::test::matmul_test
