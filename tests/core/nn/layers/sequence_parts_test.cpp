// SPDX-License-Identifier: Apache-2.0
// Rule: if each rank sends part i of its buffer to rank i, a rank that has its tokens with all
// heads gets all tokens with its heads, and the way back gives it what it had. Of a head that
// several ranks have, the way back gives the sum.
#include <algorithm>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <core/nn/layers/sequence_parts.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::sequence_parts_test {
namespace {

constexpr std::int64_t samples = 2, tokens = 3, ranks = 4, channels = 5;
constexpr std::int64_t part = samples * tokens * channels;

using Values = Buffer<float>;

struct Parts : KernelTest, ::testing::WithParamInterface<std::int64_t> {
  std::int64_t copies() const { return GetParam(); }
  std::int64_t width() const { return ranks / copies() * channels; }

  // Moves each rank's values into a buffer of `elems`.
  std::vector<Values> moved(Kernel way, const std::vector<Values>& from, std::int64_t elems) const {
    const SequenceParts shape{samples, tokens, ranks, channels, copies()};
    std::vector<Values> into;
    for (const Values& x : from) {
      into.emplace_back(elems);
      rearrange_parts(ctx, way, shape, {Dtype::fp32, x.data()}, {Dtype::fp32, into.back().data()});
    }
    return into;
  }
  static std::vector<Values> exchanged(const std::vector<Values>& sent) {
    std::vector<Values> received;
    for (std::size_t to = 0; to < sent.size(); ++to) {
      received.emplace_back(ranks * part);
      for (std::size_t from = 0; from < sent.size(); ++from)
        std::copy_n(sent[from].data() + static_cast<std::int64_t>(to) * part, part,
                    received.back().data() + static_cast<std::int64_t>(from) * part);
    }
    return received;
  }
  static float value(std::int64_t sample, std::int64_t token, std::int64_t channel) {
    return static_cast<float>(1000 * sample + 50 * token + channel);
  }
  std::vector<Values> tokens_by_rank() const {
    std::vector<Values> all;
    for (std::int64_t r = 0; r < ranks; ++r) {
      Values& x = all.emplace_back(samples * tokens * width());
      for (std::int64_t i = 0; i < samples * tokens; ++i)
        for (std::int64_t j = 0; j < width(); ++j)
          x[i * width() + j] = value(i / tokens, r * tokens + i % tokens, j);
    }
    return all;
  }
};

TEST_P(Parts, CarryHeadsToTheirRanksAndBack) {
  const std::vector<Values> own = tokens_by_rank();
  const std::vector<Values> heads = moved(
      Kernel::join_tokens, exchanged(moved(Kernel::split_heads, own, ranks * part)), ranks * part);
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < samples * ranks * tokens; ++i)
      for (std::int64_t j = 0; j < channels; ++j)
        ASSERT_EQ(heads[static_cast<std::size_t>(r)][i * channels + j],
                  value(i / (ranks * tokens), i % (ranks * tokens), r / copies() * channels + j))
            << "rank " << r << ", row " << i << ", channel " << j;
  const std::int64_t elems = samples * tokens * width();
  const std::vector<Values> back =
      moved(Kernel::join_heads, exchanged(moved(Kernel::split_tokens, heads, ranks * part)), elems);
  for (std::size_t r = 0; r < own.size(); ++r)
    for (std::int64_t i = 0; i < elems; ++i)
      ASSERT_EQ(back[r][i], static_cast<float>(copies()) * own[r][i])
          << "rank " << r << ", element " << i;
}

INSTANTIATE_TEST_SUITE_P(copies, Parts, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace shardmark::test::sequence_parts_test
