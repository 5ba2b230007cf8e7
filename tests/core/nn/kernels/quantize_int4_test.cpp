// SPDX-License-Identifier: Apache-2.0
// Rules: quantization in 4 bits follows DeepSpeed's formula, and a restored element differs from
// the original by at most half a step, or a whole one if it is clamped; parts are sent in the order
// of the ranks' numbers in their nodes; and the two exchanges of a gradient, made here without
// communication, leave each rank its part of the sum, within the sum of the steps.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/kernels/quantize_int4.hpp>
#include <tests/core/nn/kernels/quantized.hpp>

namespace shardmark::test::quantize_int4_test {
namespace {

struct QuantizeInt4 : KernelTest {};

float value(std::int64_t i, float scale) {
  return uniform_value(11, i, scale);
}

// Element `i` of packed values: the first element of a byte is in its upper half.
int unpacked(const std::int8_t* q, std::int64_t i) {
  const int byte = static_cast<std::uint8_t>(q[i / 2]);
  const int four = i % 2 == 0 ? byte / 16 : byte % 16;
  return four >= 8 ? four - 16 : four;
}

TEST_F(QuantizeInt4, restores_each_element_within_its_step) {
  for (const std::int64_t size : {8, 72, 1144, 40960}) {
    const std::int64_t groups = 6, elems = size * groups;
    Buffer<Fp16> x(elems), back(elems);
    Buffer<std::int8_t> q(elems / 2);
    Buffer<float> steps(groups);
    for (std::int64_t i = 0; i < elems; ++i)  // groups of very different sizes
      x[i] = round_fp16(value(i, std::ldexp(1.0f, static_cast<int>(i / size) * 3 - 8)));
    quantize_int4(ctx, elems, groups, 1, 3, q.data(), steps.data(), x.data());
    dequantize_int4(ctx, elems, groups, back.data(), q.data(), steps.data());
    for (std::int64_t g = 0; g < groups; ++g)
      expect_group_restored(
          x.data() + g * size, back.data() + g * size, size, steps[g], 8,
          [&](std::int64_t i) { return static_cast<float>(unpacked(q.data(), g * size + i)); });
  }
}

TEST_F(QuantizeInt4, keeps_zeros_and_what_is_not_finite_shows) {
  Buffer<Fp16> x(24), back(24);
  Buffer<std::int8_t> q(12);
  Buffer<float> steps(3);
  fill_with_extremes(x);
  quantize_int4(ctx, 24, 3, 1, 1, q.data(), steps.data(), x.data());
  dequantize_int4(ctx, 24, 3, back.data(), q.data(), steps.data());
  EXPECT_EQ(steps[0], 1);
  expect_extremes_restored(back);
  EXPECT_EQ(unpacked(q.data(), 16), 7);
}

TEST_F(QuantizeInt4, sends_parts_in_the_order_of_places_in_a_node) {
  // Two nodes of four ranks, two groups per part: the picture in DeepSpeed's source.
  const std::vector<int> order{0, 4, 1, 5, 2, 6, 3, 7};
  const std::int64_t size = 8, groups = 16, elems = size * groups;
  Buffer<Fp16> x(elems);
  Buffer<std::int8_t> q(elems / 2);
  Buffer<float> steps(groups);
  for (std::int64_t i = 0; i < elems; ++i) x[i] = round_fp16(static_cast<float>(8 * (1 + i / 8)));
  quantize_int4(ctx, elems, groups, 2, 4, q.data(), steps.data(), x.data());
  for (std::size_t p = 0; p < order.size(); ++p)
    for (std::int64_t g = 0; g < 2; ++g)
      EXPECT_NEAR(steps[static_cast<std::int64_t>(2 * p) + g], 1 + 2 * order[p] + g, 1e-5) << p;
}

// What DeepSpeed's all_to_all_quant_reduce computes: `grads` by rank, and the sums by rank.
TEST_F(QuantizeInt4, sums_gradients_of_nodes_within_the_steps) {
  for (const auto& [nodes, node_ranks] : {std::pair{2, 2}, {3, 1}, {2, 3}, {1, 4}}) {
    const int ranks = nodes * node_ranks;
    const std::int64_t size = 24, groups = 2 * ranks, elems = size * groups;
    const std::int64_t part = elems / ranks, part_groups = 2;
    Buffer<Fp16> grads(elems * ranks);
    for (std::int64_t i = 0; i < elems * ranks; ++i) grads[i] = round_fp16(value(i, 1.0f));
    Buffer<std::int8_t> sent(elems / 2 * ranks);
    Buffer<float> steps(groups * ranks);
    for (int r = 0; r < ranks; ++r)
      quantize_int4(ctx, elems, groups, nodes, node_ranks, sent.data() + r * elems / 2,
                    steps.data() + r * groups, grads.data() + r * elems);
    // A rank receives as many parts from each rank of its node as there are nodes.
    const std::int64_t row = part * nodes, row_groups = part_groups * nodes;
    Buffer<std::int8_t> sums(row / 2 * ranks);
    Buffer<float> sum_steps(row_groups * ranks);
    for (int r = 0; r < ranks; ++r) {
      Buffer<std::int8_t> received(row / 2 * node_ranks);
      Buffer<float> received_steps(row_groups * node_ranks);
      for (int from = 0; from < node_ranks; ++from) {
        const int sender = r / node_ranks * node_ranks + from, place = r % node_ranks;
        for (std::int64_t i = 0; i < row / 2; ++i)
          received[from * row / 2 + i] = sent[sender * elems / 2 + place * row / 2 + i];
        for (std::int64_t g = 0; g < row_groups; ++g)
          received_steps[from * row_groups + g] = steps[sender * groups + place * row_groups + g];
      }
      reduce_int4(ctx, row, row_groups, node_ranks, sums.data() + r * row / 2,
                  sum_steps.data() + r * row_groups, received.data(), received_steps.data());
    }
    for (int r = 0; r < ranks; ++r) {
      Buffer<std::int8_t> received(row / 2);
      Buffer<float> received_steps(row_groups);
      for (int node = 0; node < nodes; ++node) {
        const int sender = node * node_ranks + r % node_ranks, to = r / node_ranks;
        for (std::int64_t i = 0; i < part / 2; ++i)
          received[node * part / 2 + i] = sums[sender * row / 2 + to * part / 2 + i];
        for (std::int64_t g = 0; g < part_groups; ++g)
          received_steps[node * part_groups + g] =
              sum_steps[sender * row_groups + to * part_groups + g];
      }
      Buffer<Fp16> restored(row), result(part);
      dequantize_int4(ctx, row, row_groups, restored.data(), received.data(),
                      received_steps.data());
      sum_parts(ctx, part, nodes, result.data(), restored.data());
      for (std::int64_t i = 0; i < part; ++i) {
        float want = 0;
        for (int from = 0; from < ranks; ++from) want += widen(grads[from * elems + r * part + i]);
        // Each rank's step is 1/8 at most and each node's node_ranks / 8; at most a whole step is
        // lost each time, and half of one by nearly all elements.
        const float bound = static_cast<float>(2 * ranks) / 8 + 0.02f;
        ASSERT_LE(std::abs(widen(result[i]) - want), bound)
            << nodes << " nodes of " << node_ranks << ", rank " << r << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace shardmark::test::quantize_int4_test
