// SPDX-License-Identifier: Apache-2.0
// What tests of routers and of the rows of experts share.
#pragma once

#include <core/nn/layers/experts.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test {

/// Values from -2 to 2.
inline Buffer<float> filled(std::int64_t elems, std::uint64_t stream) {
  Buffer<float> b(elems);
  for (std::int64_t i = 0; i < elems; ++i)
    b[i] = static_cast<float>(mix(2, stream, i) % 2001) / 500.0f - 2.0f;
  return b;
}

/// The fixture of tests of a router, which has its buffers.
struct RouterTest : KernelTest {
  RouterTest(std::int64_t rows, std::int64_t experts, std::int64_t per_token)
      : probabilities(rows * experts),
        weights(rows * per_token),
        chosen(rows * per_token),
        places(rows * per_token),
        sources(rows * per_token),
        starts(experts + 1),
        routes_{rows,          experts,       per_token,      probabilities.data(), weights.data(),
                chosen.data(), places.data(), sources.data(), starts.data()} {}
  const Routes& routes() const { return routes_; }

  Buffer<float> probabilities, weights;
  Buffer<std::int32_t> chosen, places, sources, starts;

 private:
  Routes routes_;
};

}  // namespace shardmark::test
