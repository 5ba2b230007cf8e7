// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <vector>

#include <core/error.hpp>
#include <core/nn/products/bf16_products.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

using Clock = std::chrono::steady_clock;

// Operands and scratch for products of up to `edge` in each extent. They are in host memory, like
// those of the library.
class Bench {
 public:
  Bench(const Space& space, std::int64_t edge, std::int64_t scratch_bytes)
      : space_(space),
        edge_(edge),
        a_(static_cast<std::size_t>(edge * edge), round_bf16(1)),
        b_(a_),
        c_(a_),
        scratch_(static_cast<std::size_t>(scratch_bytes)) {}

  // Runs the products of a linear layer: y = x W^T, dx = dy W and dW = dy^T x.
  void run(MatMul& matmul) {
    for (const auto& [transpose_a, transpose_b] :
         {std::array{false, true}, {false, false}, {true, false}}) {
      MatMulShape s{edge_, edge_, edge_, transpose_a, transpose_b, edge_, edge_, edge_};
      s.type = s.c_type = Dtype::bf16;
      matmul(space_, s, a_.data(), b_.data(), c_.data(), nullptr, scratch_);
    }
  }

  double seconds(MatMul& matmul) {
    const auto start = Clock::now();
    run(matmul);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  const Space& space_;
  std::int64_t edge_;
  std::vector<Bf16> a_, b_, c_;
  std::vector<std::byte> scratch_;
};

}  // namespace

bool has_native_bf16(const Space& space) try {
  constexpr std::int64_t scratch_bytes = std::int64_t{1} << 20;
  MatMul native(scratch_bytes, Bf16Products::native);
  Bench(space, 32, scratch_bytes).run(native);
  return true;
} catch (const PlanError&) {  // the library has no such product
  return false;
}

Bf16Speed measure_bf16(const Space& space, std::int64_t scratch_cap_bytes) {
  constexpr std::int64_t edge = 512;
  constexpr int repetitions = 5;
  constexpr double never = std::numeric_limits<double>::infinity();
  Bf16Speed speed{never, never};
  const bool has_native = has_native_bf16(space);
  MatMul native(scratch_cap_bytes, Bf16Products::native),
      widened(scratch_cap_bytes, Bf16Products::widened);
  Bench bench(space, edge, scratch_cap_bytes);
  bench.run(widened);  // prepares the products
  if (has_native) bench.run(native);
  // The two ways take turns, so that other load on the machine affects both.
  for (int i = 0; i < repetitions; ++i) {
    speed.widened_s = std::min(speed.widened_s, bench.seconds(widened));
    if (has_native) speed.native_s = std::min(speed.native_s, bench.seconds(native));
  }
  return speed;
}

}  // namespace shardmark
