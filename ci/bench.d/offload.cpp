// SPDX-License-Identifier: Apache-2.0
// Measures offload in the steps of a deck. Compares AdamW on the host (the update and, in 16-bit
// training, the rounding of its result for the copy back, timed inside steps) with a triad of the
// same ranks, in turns; the plan's operands give the bytes that both must move. Also compares the
// time of copies over a throttled link with bytes / bandwidth.
//
//     mpiexec -n RANKS bench_offload TURNS MIB_PER_ARRAY DECK [KEY=VALUE ...]
#include <cstdlib>

#include <ci/bench.d/session.hpp>
#include <ci/bench.d/triad.hpp>
#include <ci/bench.d/turns.hpp>

namespace shardmark::bench {
namespace {

bool updates_on_host(const Event& e) {
  return e.op == Op::compute && e.tier == Tier::host &&
         (e.kernel == Kernel::adamw || e.kernel == Kernel::convert);
}

double bytes_moved(const Program& program, const Event& event) {
  std::int64_t bytes = 0;
  for (int i = 0; i < event.operands.count; ++i) {
    const Operand& o = program.operands[event.operands.first + i];
    bytes += (o.reads + o.writes) * o.elems * dtype_bytes(program.slots[o.slot].dtype);
  }
  return static_cast<double>(bytes);
}

struct HostUpdate {
  double bytes = 0, seconds = 0;
};

HostUpdate host_update(DeckSession& session) {
  HostUpdate sum;
  for (const TracedEvent& t : session.traced_step().events) {
    if (t.event < 0) continue;
    const Event& event = session.program.segments[t.segment].events[t.event];
    if (!updates_on_host(event)) continue;
    sum.bytes += bytes_moved(session.program, event);
    sum.seconds += static_cast<double>(t.end_ns - t.begin_ns) * 1e-9;
  }
  if (sum.bytes == 0)
    throw DeckError(session.deck.path +
                    ": deepspeed.zero_optimization.offload_optimizer: no step of this deck updates "
                    "on the host: offload the optimizer");
  return sum;
}

std::string type_of(const DeckSession& s) {
  return fmt::format("{} stage {}", to_string(s.program.precision.model), s.program.stage);
}

void compare_update_with_triad(const Machine& machine, int turns, std::int64_t mib,
                               DeckSession& session) {
  const MPI_Comm world = machine.world.comm();
  const std::int64_t elems = mib << 18;
  const Array a = make_array("a", elems), b = make_array("b", elems), c = make_array("c", elems);
  std::vector<double> update_rate, triad_rate;
  for (int turn = -1; turn < turns; ++turn) {
    const double of_triad = together(world, [&] { triad(a.data(), b.data(), c.data(), elems); });
    const HostUpdate update = host_update(session);
    const double of_update = slowest(world, update.seconds);
    if (turn < 0) continue;
    const double ranks = machine.world.size();
    triad_rate.push_back(ranks * triad_bytes * static_cast<double>(elems) / of_triad / 1e9);
    update_rate.push_back(ranks * update.bytes / of_update / 1e9);
  }
  if (machine.world.rank() != 0) return;
  print_figure(fmt::format("offloaded AdamW/triad, bandwidth, {}, {} ranks", type_of(session),
                           machine.world.size()),
               ratio(update_rate, triad_rate), "", ">= 0.80",
               fmt::format("AdamW {:.1f} GB/s, triad {:.1f} GB/s", spread(update_rate).median,
                           spread(triad_rate).median));
}

void throttled_link(const Machine& machine, int turns, DeckSession& session) {
  const double gb_per_s = *session.deck.machine.host_link_gbps;
  session.step();
  std::vector<double> took, needs;
  for (int turn = 0; turn < turns; ++turn) {
    session.executor().reset_times();
    session.step();
    double bytes = 0, seconds = 0;
    for (const LinkTimes& t : session.executor().link_times()) {
      bytes += static_cast<double>(t.bytes);
      seconds += static_cast<double>(t.busy_ns) * 1e-9;
    }
    took.push_back(slowest(machine.world.comm(), seconds));
    needs.push_back(bytes / gb_per_s * 1e-9);
  }
  if (machine.world.rank() != 0) return;
  print_figure(fmt::format("throttled link, time/(bytes/bandwidth), {}, {} ranks", type_of(session),
                           machine.world.size()),
               ratio(took, needs), "", "<= 1.05",
               fmt::format("{} GB/s, {:.3f} s per step", gb_per_s, spread(took).median));
}

void bench(const Machine& machine, int turns, std::int64_t mib, const std::string& deck,
           std::vector<std::string> sets) {
  {
    DeckSession session(machine, deck, sets);
    compare_update_with_triad(machine, turns, mib, session);
  }
  sets.emplace_back("machine.host_link_gbps=2");
  DeckSession session(machine, deck, sets);
  throttled_link(machine, turns, session);
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_bench(argc, argv, 3, "bench_offload TURNS MIB_PER_ARRAY DECK [KEY=VALUE ...]",
                   [&](const Machine& m) {
                     bench(m, std::atoi(argv[1]), std::atoll(argv[2]), argv[3],
                           {argv + 4, argv + argc});
                   });
}
