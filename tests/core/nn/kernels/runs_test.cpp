// SPDX-License-Identifier: Apache-2.0
// Runs of eight or four elements against one element at a time: at aligned and other addresses,
// whole and short, and without a change of a bit where values are only copied.
#include <cstring>

#include <gtest/gtest.h>

#include <core/nn/kernels/rows.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::runs_test {
namespace {

template<class T>
struct Runs : KernelTest {};
using Types = testing::Types<float, Bf16, Fp16>;
TYPED_TEST_SUITE(Runs, Types);

template<class T>
Buffer<T> numbers(std::int64_t elems) {
  Buffer<T> x(elems);
  for (std::int64_t i = 0; i < elems; ++i) round_to(x[i], 0.37f * static_cast<float>(i) - 11.0f);
  return x;
}

/// y = x / 3 by runs of N.
template<class T, int N>
struct Third {
  const T* x;
  T* y;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    float values[N];
    kernel::load_run(x + at, n, values);
    for (float& v : values) v /= 3;
    kernel::store_run(y + at, n, values);
  }
};
template<class T, int N>
struct Copy {
  const T* x;
  T* y;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    kernel::copy_run<N>(y + at, x + at, n);
  }
};

template<class T, int N>
void compare_with_single_elements(const Context& ctx) {
  for (const std::int64_t elems : {1, 7, 8, 9, 100})
    for (const std::int64_t shift : {0, 1, 3}) {
      const Buffer<T> x = numbers<T>(elems + shift);
      const Buffer<T> y(elems + shift + 1);
      const T after = y[elems + shift];
      kernel::for_each_run<N>(ctx, "shardmark::test", elems,
                              Third<T, N>{x.data() + shift, y.data() + shift});
      for (std::int64_t i = shift; i < elems + shift; ++i) {
        T expected;
        round_to(expected, widen(x[i]) / 3);
        const T have = y[i];
        EXPECT_EQ(std::memcmp(&have, &expected, sizeof(T)), 0) << i << " of " << elems;
      }
      const T behind = y[elems + shift];
      EXPECT_EQ(std::memcmp(&behind, &after, sizeof(T)), 0) << "beyond " << elems;
    }
}

TYPED_TEST(Runs, give_the_bits_of_single_elements_at_any_address_and_length) {
  compare_with_single_elements<TypeParam, kernel::run_elems>(this->ctx);
  compare_with_single_elements<TypeParam, kernel::short_run_elems>(this->ctx);
}

template<class T, int N>
void copy_patterns(const Context& ctx) {
  constexpr std::int64_t elems = 1000;
  for (const std::int64_t shift : {0, 1}) {
    const Buffer<T> x(elems + shift), y(elems + shift);
    auto* bytes = reinterpret_cast<unsigned char*>(x.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(elems + shift) * sizeof(T); ++i)
      bytes[i] = static_cast<unsigned char>(mix(1, 1, i));
    kernel::for_each_run<N>(ctx, "shardmark::test", elems,
                            Copy<T, N>{x.data() + shift, y.data() + shift});
    EXPECT_EQ(std::memcmp(y.data() + shift, x.data() + shift, elems * sizeof(T)), 0);
  }
}

TYPED_TEST(Runs, copy_every_bit_pattern) {
  copy_patterns<TypeParam, kernel::run_elems>(this->ctx);
  copy_patterns<TypeParam, kernel::short_run_elems>(this->ctx);
}

}  // namespace
}  // namespace shardmark::test::runs_test
