// SPDX-License-Identifier: Apache-2.0
// Compares AdamW as a step runs it with the bandwidth of memory, measured by a triad a[i] = b[i] +
// s c[i] over arrays of the same size, in turns, on every rank at once. Counts the bytes that each
// must move: 28 per element for AdamW in fp32 (four arrays read, three written), 12 for the triad.
//
//     mpiexec -n RANKS bench_memory TURNS MIB_PER_ARRAY
#include <cstdlib>
#include <vector>

#include <ci/bench.d/session.hpp>
#include <ci/bench.d/triad.hpp>
#include <ci/bench.d/turns.hpp>

#include <core/nn/optimizer/updates.hpp>

namespace shardmark::bench {
namespace {

void bench(const Machine& machine, int turns, std::int64_t mib) {
  const std::int64_t elems = mib << 18;
  const Array param = make_array("param", elems), grad = make_array("grad", elems),
              m = make_array("m", elems), v = make_array("v", elems);
  MatMul matmul(0);
  const Context context{Space(), matmul};
  const double clip = 1;
  std::vector<double> adamw_rate, triad_rate;
  for (int turn = -1; turn < turns; ++turn) {
    const MPI_Comm world = machine.world.comm();
    const double of_triad = together(world, [&] { triad(m.data(), v.data(), grad.data(), elems); });
    const double of_adamw = together(world, [&] {
      adamw_update(context, elems, param.data(), grad.data(), m.data(), v.data(), {}, &clip);
      fence(context.space, "shardmark::bench");
    });
    if (turn < 0) continue;
    const double ranks = machine.world.size(), n = static_cast<double>(elems);
    triad_rate.push_back(ranks * triad_bytes * n / of_triad / 1e9);
    adamw_rate.push_back(ranks * 28 * n / of_adamw / 1e9);
  }
  if (machine.world.rank() != 0) return;
  print_figure(fmt::format("AdamW/triad, bandwidth, {} ranks", machine.world.size()),
               ratio(adamw_rate, triad_rate), "", ">= 0.85",
               fmt::format("AdamW {:.1f} GB/s, triad {:.1f} GB/s", spread(adamw_rate).median,
                           spread(triad_rate).median));
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_bench(argc, argv, 2, "bench_memory TURNS MIB_PER_ARRAY", [&](const Machine& m) {
    bench(m, std::atoi(argv[1]), std::atoll(argv[2]));
  });
}
