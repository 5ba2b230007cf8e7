// SPDX-License-Identifier: Apache-2.0
// Rule: a local reduction gives, for every type and number of rows, exactly the sum, the average or
// the maximum of each element, whatever the number of elements is and into whichever row it is
// written.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <comm/local_reduction.hpp>
#include <core/numeric/half.hpp>

namespace shardmark::test::local_reduction_test {
namespace {

// Around the lengths of runs and blocks, and large ones with odd tails.
constexpr std::int64_t lengths[] = {0,    1,    63,   64,   65,   127,  128,  129,   1023,
                                    1024, 1025, 4095, 4096, 4097, 4161, 8192, 70'001};

template<class T>
T stored(int v) {
  if constexpr (std::is_same_v<T, Bf16>) return round_bf16(static_cast<float>(v));
  if constexpr (std::is_same_v<T, Fp16>) return round_fp16(static_cast<float>(v));
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(v);
}

template<class T>
int value(T v) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<int>(v);
  else
    return static_cast<int>(widen(v));
}

// Small multiples of the number of rows, so that sums and averages are exact in every type.
int element(int row, std::int64_t i, int rows) {
  return rows * static_cast<int>((i * 7 + row * 3) % 5);
}

int expected(Reduction reduction, std::int64_t i, int rows) {
  int sum = 0, most = 0;
  for (int r = 0; r < rows; ++r) {
    sum += element(r, i, rows);
    most = std::max(most, element(r, i, rows));
  }
  if (reduction == Reduction::max) return most;
  return reduction == Reduction::average ? sum / rows : sum;
}

// `into`: the row that receives the result, or none of them.
template<class T>
void check(Dtype dtype, Reduction reduction, int rows, std::int64_t elems, int into) {
  constexpr int behind = 99;  // after the last element, which must stay
  std::vector<std::vector<T>> row(static_cast<std::size_t>(rows) + 1);
  std::vector<const void*> address;
  for (int r = 0; r <= rows; ++r) {
    auto& values = row[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < elems; ++i) values.push_back(stored<T>(element(r, i, rows)));
    values.push_back(stored<T>(behind));
    if (r < rows) address.push_back(values.data());
  }
  std::vector<T>& out = row[static_cast<std::size_t>(into)];
  combine_in_rank_order(dtype, reduction, address.data(), rows, out.data(), elems);
  for (std::int64_t i = 0; i < elems; ++i)
    ASSERT_EQ(value(out[static_cast<std::size_t>(i)]), expected(reduction, i, rows))
        << "element " << i << " of " << elems << ", rows " << rows << ", type " << to_string(dtype);
  ASSERT_EQ(value(out.back()), behind);
}

template<class T>
void check_type(Dtype dtype) {
  for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::max})
    for (const int rows : {1, 2, 3, 5})
      for (const std::int64_t elems : lengths)
        for (const int into : {0, rows - 1, rows}) check<T>(dtype, reduction, rows, elems, into);
}

TEST(LocalReduction, IsExactForEveryElement) {
  check_type<float>(Dtype::fp32);
  check_type<double>(Dtype::fp64);
  check_type<Bf16>(Dtype::bf16);
  check_type<Fp16>(Dtype::fp16);
  check_type<std::int32_t>(Dtype::int32);
  check_type<std::int64_t>(Dtype::int64);
  check_type<std::int8_t>(Dtype::int8);
  check_type<std::uint8_t>(Dtype::uint8);
}

template<class T>
void check_division(Dtype dtype) {
  for (const std::int64_t elems : lengths) {
    std::vector<T> values;
    for (std::int64_t i = 0; i <= elems; ++i) values.push_back(stored<T>(element(0, i, 3) + 3));
    divide(dtype, values.data(), elems, 3);
    for (std::int64_t i = 0; i <= elems; ++i)
      ASSERT_EQ(value(values[static_cast<std::size_t>(i)]),
                (element(0, i, 3) + 3) / (i < elems ? 3 : 1))
          << i << " of " << elems;
  }
}

TEST(LocalReduction, DividesEveryElement) {
  check_division<float>(Dtype::fp32);
  check_division<double>(Dtype::fp64);
  check_division<std::int32_t>(Dtype::int32);
  check_division<std::int64_t>(Dtype::int64);
  check_division<std::int8_t>(Dtype::int8);
  check_division<std::uint8_t>(Dtype::uint8);
}

}  // namespace
}  // namespace shardmark::test::local_reduction_test
