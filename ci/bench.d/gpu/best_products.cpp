// SPDX-License-Identifier: Apache-2.0
// For each shape of product in a step of a deck: the time of the algorithm that cuBLASLt chooses,
// and of the fastest one that it proposes. Prints one JSON object per shape.
//
//     bench_best_products DECK [KEY=VALUE ...]
#include <algorithm>
#include <set>

#include <ci/bench.d/gpu/device.hpp>
#include <ci/bench.d/product_replay.hpp>
#include <ci/bench.d/session.hpp>
#include <fmt/core.h>

#include <core/nn/gpu/product.hpp>

namespace shardmark::bench {
namespace {

std::vector<MatMulShape> shapes_of(const Machine& machine, const std::string& deck,
                                   const std::vector<std::string>& sets) {
  DeckSession session(machine, deck, sets);
  const auto all = session.products_of_step();
  const std::set<MatMulShape> different(all.begin(), all.end());
  return {different.begin(), different.end()};
}

void compare(device::blas::Handle handle, const MatMulShape& s) {
  const std::int64_t workspace_bytes = Profile{}.workspace_cap_bytes;
  const DeviceBytes a(a_bytes(s)), b(b_bytes(s)), c(c_bytes(s)), bias(s.n * dtype_bytes(s.type)),
      workspace(workspace_bytes);
  const device::ProductOperands p{a.data(), b.data(), c.data(), s.bias ? bias.data() : nullptr};
  constexpr int most = 16, repeats = 10;
  std::vector<double> us;
  for (const device::Product& product : device::Product::candidates(
           handle, s, device::alignment_of(p), static_cast<std::size_t>(workspace_bytes), most))
    us.push_back(1e3 *
                 median_ms(repeats, [&] { product.run(handle, nullptr, p, workspace.data()); }));
  const double best = *std::min_element(us.begin(), us.end());
  fmt::print(R"({{"what": "{}", "chosen_us": {:.6g}, "best_us": {:.6g}, "value": {:.6g}, )"
             R"("algorithms": {}, "tflops": {:.6g}}})"
             "\n",
             to_string(s), us.front(), best, best / us.front(), us.size(),
             s.flops() / us.front() * 1e-6);
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark;
  return bench::run_bench(
      argc, argv, 1, "bench_best_products DECK [KEY=VALUE ...]", [&](const bench::Machine& m) {
        const auto shapes = bench::shapes_of(m, argv[1], {argv + 2, argv + argc});
        device::blas::Handle handle = nullptr;
        SHARDMARK_PRODUCT(Create, &handle);
        for (const MatMulShape& s : shapes) bench::compare(handle, s);
        SHARDMARK_PRODUCT(Destroy, handle);
      });
}
