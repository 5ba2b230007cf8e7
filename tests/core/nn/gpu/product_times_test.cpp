// SPDX-License-Identifier: Apache-2.0
// Rule: a GPU's time in products is the sum of what events around each product measured, however
// many are in flight; what is recorded has the time of each.
#include <gtest/gtest.h>

#include <core/nn/products/matmul.hpp>
#include <tests/core/nn/gpu/stand_ins/fake_events.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::product_times_test {
namespace {

constexpr std::int64_t cap = 4096, product_ns = 1'000'000;

class ProductTimes : public ::testing::Test {
 protected:
  void run(int times) {
    const MatMulShape s{5, 3, 2, false, false, 2, 3, 3};
    for (int i = 0; i < times; ++i)
      matmul(Space(), s, a.data(), a.data(), c.data(), nullptr,
             {scratch.data(), static_cast<std::size_t>(cap)});
  }
  MatMul matmul{cap};
  Buffer<float> a{16}, c{16};
  Buffer<std::byte> scratch{cap};
};

TEST_F(ProductTimes, AddUpHoweverManyAreInFlight) {
  EXPECT_EQ(matmul.matmul_ns(), 0);
  int products = 0;
  for (const int more : {1, 2, 1023, 1024, 1025, 5000}) {
    run(more);
    products += more;
    EXPECT_EQ(matmul.matmul_ns(), products * product_ns);
    EXPECT_EQ(matmul.matmul_ns(), products * product_ns) << "asked for again";
  }
}

TEST_F(ProductTimes, AreRecordedForEachProduct) {
  run(3);
  matmul.record(true);
  run(1500);
  matmul.record(false);
  run(2);
  ASSERT_EQ(matmul.recorded_ns().size(), 1500u);
  for (const std::int64_t ns : matmul.recorded_ns()) EXPECT_EQ(ns, product_ns);
  EXPECT_EQ(matmul.matmul_ns(), 1505 * product_ns);
}

TEST(ProductTimesEvents, AreDestroyed) {
  const int before = stand_in::events_alive();
  {
    MatMul matmul(cap);
    Buffer<float> a(16);
    Buffer<std::byte> scratch(cap);
    matmul(Space(), {2, 2, 2, false, false, 2, 2, 2}, a.data(), a.data() + 4, a.data() + 8, nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)});
    EXPECT_GT(stand_in::events_alive(), before);
  }
  EXPECT_EQ(stand_in::events_alive(), before);
}

}  // namespace
}  // namespace shardmark::test::product_times_test
