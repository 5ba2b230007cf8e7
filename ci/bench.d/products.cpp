// SPDX-License-Identifier: Apache-2.0
// Measures the share of matrix products in a step. Turns alternate between a step and all products
// of that step in the same order without anything between them.
//
//     bench_products TURNS DECK [KEY=VALUE ...]

#include <ci/bench.d/product_replay.hpp>
#include <ci/bench.d/session.hpp>
#include <ci/bench.d/turns.hpp>

namespace shardmark::bench {
namespace {

void bench(const Machine& machine, int turns, const std::string& deck,
           const std::vector<std::string>& sets) {
  DeckSession session(machine, deck, sets);
  ProductReplay replay(session.products_of_step(), Profile{}.workspace_cap_bytes);
  replay.run(*session.context);
  std::vector<double> steps, products;
  for (int turn = 0; turn < turns; ++turn) {
    steps.push_back(seconds_of([&] { session.step(); }));
    products.push_back(seconds_of([&] { replay.run(*session.context); }));
  }
  const std::string name = fmt::format("{} stage {} {}", session.deck.name, session.program.stage,
                                       to_string(session.program.schedule));
  const char* dtype = session.deck.zero.precision.model == Dtype::bf16 ? " bf16" : " fp32";
  print_figure(
      fmt::format("products/step {}{} micro-batch {}", name, dtype, session.program.batch.micro),
      ratio(products, steps), "", session.program.batch.micro < 4 ? ">= 0.75" : ">= 0.88",
      fmt::format("{} products, {:.1f} GFLOP/s, step {:.4f} s, {}",
                  session.matmul->recorded().size(), replay.flops() / spread(products).median / 1e9,
                  spread(steps).median, to_string(session.matmul->bf16_products())));
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_deck_bench(argc, argv, "bench_products", bench);
}
