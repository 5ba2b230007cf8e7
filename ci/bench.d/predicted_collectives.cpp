// SPDX-License-Identifier: Apache-2.0
// Compares the predicted times of single collectives with measured ones, for every verb, at sizes
// between those that `calibrate` measures, and beyond its largest one.
//
//     mpiexec -n RANKS bench_predicted_collectives MACHINE_FILE [LARGEST_MIB]
//
// LARGEST_MIB is the largest array that is measured (1024).
#include <cmath>
#include <cstdlib>
#include <vector>

#include <ci/bench.d/session.hpp>
#include <fmt/core.h>

#include <comm/mpi/node.hpp>
#include <comm/shm/core_distance.hpp>
#include <core/plan/price/collective_time.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/calibrate/collective_probe.hpp>
#include <miniapp/calibrate/samples.hpp>

namespace shardmark::bench {
namespace {

struct Errors {
  std::vector<double> relative;
  void add(double error) { relative.push_back(error); }
  /// The geometric mean of how many times too large or too small, less 1.
  double mean() const {
    double sum = 0;
    for (const double e : relative) sum += std::abs(std::log1p(e));
    return relative.empty() ? 0 : std::expm1(sum / static_cast<double>(relative.size()));
  }
  double worst() const {
    double most = 0;
    for (const double e : relative) most = std::max(most, std::abs(e));
    return most;
  }
};

void print(const char* what, const Errors& errors) {
  fmt::print("{:<16} {:5.1f} % mean, {:5.1f} % worst of {} sizes\n", what, 100 * errors.mean(),
             100 * errors.worst(), errors.relative.size());
}

void compare(const Machine& ranks, const std::string& path, std::int64_t largest_mib) {
  const shardmark::Machine machine = read_machine_file(path);
  const auto lane = ranks.make_lane();
  Peers peers(*lane);
  const std::int64_t largest = largest_mib << 20;
  CollectiveProbe probe(ranks.node, ranks.world.comm(), peers, largest);
  // The ranks reach each other's memory for the first time, which no step does again.
  for (const Op op : {Op::all_gather, Op::all_reduce}) probe.times(op, Dtype::fp32, largest, 1);
  CoreDistance cores(ranks_of_node(ranks.world.comm()).get());
  const bool prints = peers.rank() == 0;
  Errors all;
  for (const Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce, Op::reduce, Op::broadcast,
                      Op::all_to_all}) {
    Errors of_verb;
    std::int64_t bytes = 1536;
    for (bool last = false; !last; bytes = std::min(bytes * 4, largest)) {
      last = bytes == largest;
      const CollectiveShape shape{op,           Dtype::fp32,      bytes / 4,
                                  peers.size(), ranks.node.ranks, ranks.node.ranks};
      // Like `run --machine`, this uses the figures for where the cores are at the moment.
      const double core_to_core_s = peers.max(cores.measure_s());
      const CollectiveTime time = collective_time(in_placement(machine, core_to_core_s), shape);
      const double predicted = time.latency_s + time.transfer_s;
      const int repeats = std::clamp(static_cast<int>(0.1 / predicted), 3, 50);
      const double measured = mean_without_outliers(probe.times(op, Dtype::fp32, bytes, repeats));
      const double error = predicted / measured - 1;
      of_verb.add(error), all.add(error);
      if (prints)
        fmt::print(
            "{{\"what\": \"{}\", \"bytes\": {}, \"predicted_us\": {:.2f}, \"measured_us\": {:.2f}, "
            "\"error\": {:.4f}}}\n",
            to_string(op), bytes, 1e6 * predicted, 1e6 * measured, error);
    }
    if (prints) print(std::string(to_string(op)).c_str(), of_verb);
  }
  if (prints) print("all", all);
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark;
  if (argc < 2)
    return fmt::print(stderr, "bench_predicted_collectives MACHINE_FILE [LARGEST_MIB]\n"), 2;
  const bench::Machine ranks(argc, argv);
  try {
    bench::compare(ranks, argv[1], argc > 2 ? std::atoll(argv[2]) : 1024);
  } catch (const Error& e) {
    fmt::print(stderr, "bench_predicted_collectives: {}\n", e.what());
    abort_all(ranks.world.comm(), e.status());
  }
  return 0;
}
