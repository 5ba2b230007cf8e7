// SPDX-License-Identifier: Apache-2.0
// Compares the predicted times of single collectives with measured ones, for every verb, at sizes
// between those that `calibrate` measures, and beyond its largest one.
//
//     mpiexec -n RANKS bench_predicted_collectives TURNS [LARGEST_MIB [MACHINE_FILE]]
//
// Without MACHINE_FILE, what `calibrate` measures of collectives and the collectives that are
// compared take TURNS turns, so that both meet the same conditions. With it, TURNS repeats the
// latter. LARGEST_MIB is the largest array that is compared (1024).
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <comm/mpi/node.hpp>
#include <comm/shm/core_distance.hpp>
#include <core/plan/price/collective_time.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/tools/calibrate/collective_probe.hpp>
#include <miniapp/tools/calibrate/probe.hpp>
#include <miniapp/tools/calibrate/samples.hpp>
#include <miniapp/run/launch.hpp>

namespace shardmark::bench {
namespace {

constexpr Op verbs[] = {Op::all_gather, Op::reduce_scatter, Op::all_reduce,
                        Op::reduce,     Op::broadcast,      Op::all_to_all};

// One verb and size, over all turns.
struct Compared {
  Op op;
  std::int64_t bytes;
  std::vector<double> seconds;         // of each repetition
  std::vector<double> core_to_core_s;  // of each turn
};

std::vector<Compared> sizes_to_compare(std::int64_t largest_bytes) {
  std::vector<Compared> all;
  for (const Op op : verbs) {
    for (std::int64_t bytes = 1536; bytes < largest_bytes; bytes *= 4)
      all.push_back({op, bytes, {}, {}});
    all.push_back({op, largest_bytes, {}, {}});
  }
  return all;
}

// Times each size for about a tenth of a second.
void measure(CollectiveProbe& probe, CoreDistance& cores, Peers& peers,
             std::vector<Compared>& all) {
  constexpr double enough_s = 0.1;
  for (Compared& c : all) {
    c.core_to_core_s.push_back(peers.max(cores.measure_s()));
    const double once = mean_without_outliers(probe.times(c.op, Dtype::fp32, c.bytes, 2));
    const int repeats = std::clamp(static_cast<int>(enough_s / once), 3, 50);
    for (const double s : probe.times(c.op, Dtype::fp32, c.bytes, repeats)) c.seconds.push_back(s);
  }
}

// Like `run --machine`, this uses the figures for where the cores are when it measures.
double predicted_s(const Machine& machine, const Node& node, int ranks, const Compared& c) {
  const CollectiveShape shape{c.op, Dtype::fp32, c.bytes / 4, ranks, node.ranks, node.ranks};
  double sum = 0;
  for (const double distance : c.core_to_core_s) {
    const CollectiveTime time = collective_time(in_placement(machine, distance), shape);
    sum += time.latency_s + time.transfer_s;
  }
  return sum / static_cast<double>(c.core_to_core_s.size());
}

struct Errors {
  double logs = 0, most = 0;
  int sizes = 0;
  void add(double error) {
    logs += std::abs(std::log1p(error)), most = std::max(most, std::abs(error)), ++sizes;
  }
  // The mean is that of how many times too large or too small, less 1.
  void print(std::string_view what) const {
    fmt::print("{:<16} {:5.1f} % geometric mean, {:5.1f} % worst of {} sizes\n", what,
               100 * std::expm1(logs / sizes), 100 * most, sizes);
  }
};

void print(const Machine& machine, const World& world, const std::vector<Compared>& all) {
  Errors of_all;
  for (const Op op : verbs) {
    Errors of_verb;
    for (const Compared& c : all) {
      if (c.op != op) continue;
      const double predicted = predicted_s(machine, world.node, world.peers.size(), c);
      const double measured = mean_without_outliers(c.seconds);
      const double error = predicted / measured - 1;
      of_verb.add(error), of_all.add(error);
      fmt::print(
          "{{\"what\": \"{}\", \"bytes\": {}, \"predicted_us\": {:.2f}, \"measured_us\": {:.2f}, "
          "\"error\": {:.4f}}}\n",
          to_string(op), c.bytes, 1e6 * predicted, 1e6 * measured, error);
    }
    of_verb.print(to_string(op));
  }
  of_all.print("all");
}

struct Arguments {
  int turns = 1;
  std::int64_t largest_bytes = std::int64_t{1} << 30;
  std::string machine_file;
};

void compare(const Arguments& a, const World& world) {
  CoreDistance cores(ranks_of_node(world.comm).get());
  std::vector<Compared> all = sizes_to_compare(a.largest_bytes);
  Machine machine;
  world.peers.agree([&] {
    if (!a.machine_file.empty()) machine = read_machine_file(a.machine_file);
  });
  CollectiveProbe compared(world.node, world.comm, world.peers, a.largest_bytes);
  // The ranks reach each other's memory for the first time, which no step does again.
  for (const Op op : {Op::all_gather, Op::all_reduce})
    compared.times(op, Dtype::fp32, a.largest_bytes, 1);
  Samples samples;
  const Probe calibrates{.world = world,
                         .busy_ranks = world.node.ranks,
                         .samples = samples,
                         .cores = cores,
                         .progress = [](const std::string&) {}};
  for (int turn = 0; turn < a.turns; ++turn) {
    if (a.machine_file.empty()) machine.network = probe_collectives(calibrates);
    measure(compared, cores, world.peers, all);
  }
  if (a.machine_file.empty()) samples.fill(machine);
  if (world.peers.rank() == 0) print(machine, world, all);
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark;
  bench::Arguments a;
  if (argc < 2 || argc > 4)
    return fmt::print(stderr,
                      "bench_predicted_collectives TURNS [LARGEST_MIB [MACHINE_FILE]]\n"),
           2;
  a.turns = std::max(1, std::atoi(argv[1]));
  if (argc > 2) a.largest_bytes = std::atoll(argv[2]) << 20;
  if (argc > 3) a.machine_file = argv[3];
  return static_cast<int>(launch([&](const World& world) {
    bench::compare(a, world);
    return ExitStatus::valid;
  }));
}
