// SPDX-License-Identifier: Apache-2.0
// Matrix products against a plain double loop: all transpositions, odd sizes, strides, batches,
// biases and accumulation, products in packed pieces, and operands and results of all types.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/numeric/half.hpp>
#include <tests/core/nn/models/single_process.hpp>
#include <tests/core/nn/products/all_bf16_products.hpp>

namespace shardmark::test::matmul_values_test {
namespace {

constexpr std::int64_t cap = std::int64_t{16} << 20;

float value(std::uint64_t stream, std::int64_t i) {
  return static_cast<float>(mix(1, stream, i) % 2001) / 1000.0f - 1.0f;
}

template<class T>
Buffer<T> filled(std::int64_t elems, std::uint64_t stream) {
  Buffer<T> b(elems);
  for (std::int64_t i = 0; i < elems; ++i) round_to(b[i], value(stream, i));
  return b;
}

// T is the type of the operands, C that of the result. A result stored in 16 bits may differ by
// half a unit in its last place in addition to the bound of an fp32 sum: at most 2^-8 of a bf16
// value and 2^-11 of an fp16 value.
template<class C>
double rounding(double v) {
  return std::is_same_v<C, Bf16>   ? std::ldexp(std::abs(v), -8)
         : std::is_same_v<C, Fp16> ? std::ldexp(std::abs(v), -11)
                                   : 0;
}

// The error of a product that is rounded once. cuBLASLt also rounds the sum to which it adds a
// bias.
template<class C>
double bound(const MatMulShape& s, double sum) {
  const double once = 1e-6 * static_cast<double>(s.k) + 1e-5 + rounding<C>(sum);
  return on_a_gpu && s.accumulate ? once + rounding<C>(std::abs(sum) + 2) : once;
}

template<class T, class C>
void check_types(MatMulShape s, Bf16Products products) {
  s.type = storage_of<T>, s.c_type = storage_of<C>;
  SCOPED_TRACE(::testing::Message()
               << s.m << " x " << s.n << " x " << s.k << " ta " << s.transpose_a << " tb "
               << s.transpose_b << " add " << s.accumulate << " bias " << s.bias << " batch "
               << s.batch << " of " << to_string(s.type) << " to " << to_string(s.c_type) << " "
               << to_string(products));
  const std::int64_t rows_a = s.transpose_a ? s.k : s.m, rows_b = s.transpose_b ? s.n : s.k;
  const auto a = filled<T>(s.batch * s.stride_a + rows_a * s.lda, 1);
  const auto b = filled<T>(s.batch * s.stride_b + rows_b * s.ldb, 2);
  const auto before = filled<C>(s.batch * s.stride_c + s.m * s.ldc, 3);
  const auto bias = filled<T>(s.n, 4);
  const auto c = filled<C>(before.size(), 3);
  Buffer<std::byte> scratch(cap);
  MatMul matmul(cap, products);
  const auto run = [&] {
    matmul(Space(), s, a.data(), b.data(), c.data(), s.bias ? bias.data() : nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)});
  };
  if (on_a_gpu && s.bias && s.type != s.c_type) {  // on a GPU the bias has the type of the result
    EXPECT_THROW(run(), PlanError);
    return;
  }
  run();
  std::vector<char> written(c.size(), 0);
  std::vector<double> wide(s.k * s.n), sums(s.n);
  for (std::int64_t batch = 0; batch < s.batch; ++batch) {
    for (std::int64_t k = 0; k < s.k; ++k)
      for (std::int64_t j = 0; j < s.n; ++j)
        wide[k * s.n + j] =
            widen(b[batch * s.stride_b + (s.transpose_b ? j * s.ldb + k : k * s.ldb + j)]);
    for (std::int64_t i = 0; i < s.m; ++i) {
      const std::int64_t row = batch * s.stride_c + i * s.ldc;
      for (std::int64_t j = 0; j < s.n; ++j)
        sums[j] = (s.accumulate ? widen(before[row + j]) : 0.0) + (s.bias ? widen(bias[j]) : 0.0);
      for (std::int64_t k = 0; k < s.k; ++k) {
        const double factor =
            widen(a[batch * s.stride_a + (s.transpose_a ? k * s.lda + i : i * s.lda + k)]);
        for (std::int64_t j = 0; j < s.n; ++j) sums[j] += factor * wide[k * s.n + j];
      }
      for (std::int64_t j = 0; j < s.n; ++j) {
        ASSERT_NEAR(widen(c[row + j]), sums[j], bound<C>(s, sums[j])) << i << ", " << j;
        written[row + j] = 1;
      }
    }
  }
  for (std::int64_t at = 0; at < c.size(); ++at)
    ASSERT_TRUE(written[at] || widen(c[at]) == widen(before[at]))
        << "written outside of C at " << at;
}

void check(const MatMulShape& s) {
  check_types<float, float>(s, Bf16Products::widened);
  for (const Bf16Products products : all_bf16_products()) {
    check_types<Bf16, Bf16>(s, products);
    check_types<Bf16, float>(s, products);
  }
  check_types<Fp16, Fp16>(s, Bf16Products::widened);
  check_types<Fp16, float>(s, Bf16Products::widened);
}

// What a product adds may lie elsewhere than its result, and is only read.
TEST(matmul, adds_a_matrix_that_is_not_its_result) {
  const MatMulShape s{.m = 5, .n = 16, .k = 8, .lda = 8, .ldb = 16, .ldc = 16, .accumulate = true};
  const auto a = filled<float>(s.m * s.k, 1), b = filled<float>(s.k * s.n, 2);
  const auto added = filled<float>(s.m * s.n, 3), before = filled<float>(s.m * s.n, 3);
  const auto in_place = filled<float>(s.m * s.n, 3), c = filled<float>(s.m * s.n, 4);
  Buffer<std::byte> scratch(cap);
  MatMul matmul(cap);
  const auto run = [&](float* to, const void* what) {
    matmul(Space(), s, a.data(), b.data(), to, nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)}, what);
  };
  if (!MatMul::adds_elsewhere()) {
    EXPECT_THROW(run(c.data(), added.data()), PlanError);
    return;
  }
  run(in_place.data(), nullptr);
  run(c.data(), added.data());
  for (std::int64_t i = 0; i < c.size(); ++i) {
    EXPECT_EQ(c[i], in_place[i]) << i;
    EXPECT_EQ(added[i], before[i]) << i;
  }
}

TEST(matmul, equals_a_plain_loop) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool accumulate : {false, true})
        for (const bool bias : {false, true}) {
          // n * k is large enough for packing if B is stored [k][n].
          const std::int64_t m = 65, n = 131, k = 77;
          check({m, n, k, ta, tb, (ta ? m : k) + 3, (tb ? k : n) + 5, n + 7, accumulate, bias});
          check({5, 3, 2, ta, tb, ta ? 5 : 2, tb ? 2 : 3, 3, accumulate, bias});
        }
}

TEST(matmul, equals_a_plain_loop_in_several_packed_pieces) {
  for (const bool accumulate : {false, true})  // B is split along k
    check_types<float, float>({64, 70, 20000, false, false, 20000, 70, 70, accumulate, true},
                              Bf16Products::widened);
  // B is split along n.
  check_types<float, float>({64, 3100, 768, false, false, 768, 3100, 3100, false, true},
                            Bf16Products::widened);
}

// Operands that are parts of larger matrices: a bf16 C uses separate fp32 sums, in pieces of its
// longer side.
TEST(matmul, equals_a_plain_loop_in_several_pieces_of_a_16_bit_result) {
  for (const Bf16Products products : all_bf16_products()) {
    check_types<Bf16, Bf16>({8192, 140, 20, true, false, 8300, 140, 140, true}, products);
    check_types<Bf16, Bf16>({140, 8192, 20, false, true, 20, 20, 8300, false, true}, products);
  }
}

// Dense operands and many long sums: the product keeps the sums of all of C, or of pieces of C, in
// the scratch.
TEST(matmul, equals_a_plain_loop_in_sums_of_many_terms) {
  for (const Bf16Products products : all_bf16_products())
    for (const bool accumulate : {false, true}) {
      check_types<Bf16, Bf16>({1400, 776, 1032, true, false, 1400, 776, 776, accumulate}, products);
      check_types<Bf16, float>({520, 70, 1030, false, true, 1030, 1030, 70, accumulate}, products);
    }
}

// A product with several panels in each extent, the last of which are not full.
TEST(matmul, equals_a_plain_loop_in_several_widened_panels) {
  const MatMulShape deep{300, 280, 1100, true, true, 300, 1100, 280, true, true};
  const MatMulShape tall{4500, 300, 20, false, false, 20, 300, 300, true, false};
  for (const Bf16Products products : all_bf16_products()) check_types<Bf16, Bf16>(deep, products);
  check_types<Fp16, float>(deep, Bf16Products::widened);
  check_types<Fp16, Fp16>(tall, Bf16Products::widened);
}

TEST(matmul, sums_are_rounded_once_however_many_pieces_they_come_in) {
  // The sum of 2049 ones: a sum that was rounded to bf16 on the way would stay at 256.
  for (const Bf16Products products : all_bf16_products()) {
    Buffer<Bf16> a(2049), c(2);
    for (std::int64_t i = 0; i < a.size(); ++i) a[i] = round_bf16(1);
    Buffer<std::byte> scratch(cap);
    MatMul matmul(cap, products);
    MatMulShape s{1, 1, 2049, false, false, 2049, 1, 1};
    s.type = s.c_type = Dtype::bf16;
    matmul(Space(), s, a.data(), a.data(), c.data(), nullptr,
           {scratch.data(), static_cast<std::size_t>(cap)});
    EXPECT_EQ(widen(c[0]), 2048);
  }
}

TEST(matmul, equals_a_plain_loop_in_batches) {
  check({7, 9, 5, false, true, 15, 15, 11, false, false, 3, 5, 5, 7 * 11});
  check({9, 5, 7, true, false, 11, 15, 15, true, false, 3, 7 * 11, 5, 5});
}

}  // namespace
}  // namespace shardmark::test::matmul_values_test
