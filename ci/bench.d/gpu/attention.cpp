// SPDX-License-Identifier: Apache-2.0
// Times native attention in bf16, forward and backward, and prints one JSON object.
//
//     bench_attention BATCH SEQUENCE HEADS HEAD_SIZE [KV_HEADS]
#include <cstdlib>

#include <ci/bench.d/gpu/device.hpp>
#include <fmt/core.h>

#include <core/nn/gpu/attention_kernels.hpp>

int main(int argc, char** argv) try {
  using namespace shardmark;
  if (argc < 5)
    return fmt::print(stderr, "bench_attention BATCH SEQUENCE HEADS HEAD_SIZE [KV_HEADS]\n"), 2;
  const auto word = [&](int i) { return std::atoll(argv[i]); };
  const device::AttentionShape s{word(1), word(2), word(3), argc > 5 ? word(5) : word(3), word(4)};
  const std::int64_t rows = s.micro_batch * s.sequence;
  const std::int64_t ld_q = s.heads * s.head_dim, ld_kv = s.kv_heads * s.head_dim;
  constexpr std::int64_t bf16_bytes = 2, fp32_bytes = 4;
  const bench::DeviceBytes q(rows * ld_q * bf16_bytes), k(rows * ld_kv * bf16_bytes),
      v(rows * ld_kv * bf16_bytes), out(rows * ld_q * bf16_bytes), dout(rows * ld_q * bf16_bytes),
      dq(rows * ld_q * bf16_bytes), dk(rows * ld_kv * bf16_bytes), dv(rows * ld_kv * bf16_bytes),
      logsumexp(rows * s.heads * fp32_bytes), delta(rows * s.heads * fp32_bytes);
  const auto floats = [](const bench::DeviceBytes& b) {
    return reinterpret_cast<float*>(b.data());
  };
  const device::AttentionInput in{Dtype::bf16, q.data(), k.data(), v.data(), ld_q, ld_kv};
  constexpr int repeats = 20;
  const double forward = bench::median_ms(
      repeats, [&] { device::attention_forward(nullptr, s, in, out.data(), floats(logsumexp)); });
  const double backward = bench::median_ms(repeats, [&] {
    device::attention_backward(nullptr, s, in, out.data(), floats(logsumexp), dout.data(),
                               {dq.data(), dk.data(), dv.data(), ld_q, ld_kv}, floats(delta));
  });
  fmt::print(R"({{"what": "attention", "forward_ms": {:.6g}, "backward_ms": {:.6g}}})"
             "\n",
             forward, backward);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "bench_attention: {}\n", e.what());
  return 1;
}
