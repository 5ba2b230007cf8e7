// SPDX-License-Identifier: Apache-2.0
// Collectives among all ranks, by verb, type and size, alone and beside computation.
#include <algorithm>

#include <fmt/core.h>

#include <comm/mpi/node.hpp>
#include <miniapp/tools/calibrate/collective_probe.hpp>
#include <miniapp/tools/calibrate/probe.hpp>

namespace shardmark {
namespace {

struct Verb {
  Op op;
  Dtype dtype;
  bool in_place = false;
};
constexpr Verb verbs[] = {
    {Op::all_gather, Dtype::fp32},     {Op::all_gather, Dtype::fp32, true},
    {Op::reduce_scatter, Dtype::fp32}, {Op::all_reduce, Dtype::fp32},
    {Op::reduce, Dtype::fp32},         {Op::broadcast, Dtype::fp32},
    {Op::all_to_all, Dtype::fp32},     {Op::reduce_scatter, Dtype::bf16},
    {Op::all_reduce, Dtype::bf16},     {Op::reduce, Dtype::bf16},
    {Op::barrier, Dtype::uint8},
};

// Measures all verbs among the ranks of a communicator, of which `ranks_per_node` share a node, as
// the level of this number.
class LevelProbe {
 public:
  LevelProbe(const Probe& probe, MPI_Comm comm, std::size_t number, int ranks_per_node)
      : probe_(probe),
        number_(number),
        largest_(probe.quick ? std::int64_t{64} << 20 : std::int64_t{512} << 20),
        collectives_(probe.world.node, comm, probe.world.peers, largest_) {
    const int ranks = collectives_.size();
    level_.name = ranks_per_node == ranks ? "within the node" : "all ranks";
    level_.between_nodes = ranks_per_node < ranks;
    level_.library = collectives_.library();
    level_.link.measured = true;
    for (const Verb& v : verbs)
      level_.collectives.push_back({.op = v.op,
                                    .dtype = v.dtype,
                                    .ranks = ranks,
                                    .ranks_per_node = ranks_per_node,
                                    .in_place = v.in_place,
                                    .points = {}});
  }

  NetworkLevel run() {
    for (const Verb& v : verbs) times(v);
    probe_.progress("collectives beside computation");
    probe_.samples.add_share_of_compute(number_,
                                        collectives_.share_of_compute(std::int64_t{16} << 20));
    return level_;
  }

 private:
  void times(const Verb& v) {
    probe_.progress(fmt::format("{} {} {}{}", to_string(v.op), to_string(v.dtype), level_.name,
                                v.in_place ? ", in place" : ""));
    constexpr double enough_s = 0.04;  // per size
    // A slow network decides which size is the largest, not how long a calibration takes. Larger
    // ones follow from its bandwidth.
    constexpr double most_s = 1;
    constexpr int fewest = 2;
    const std::int64_t from = v.op == Op::barrier ? 1 : 64;
    double guess = 1e-4;
    for (std::int64_t bytes = from; bytes <= largest_ && (fewest + 1) * guess <= most_s;
         bytes *= v.op == Op::barrier ? largest_ : 4) {
      const int repeats =
          std::clamp(static_cast<int>(enough_s / guess), fewest, v.in_place ? 8 : 25);
      probe_.look();
      const auto seconds = collectives_.times(v.op, v.dtype, bytes, repeats, v.in_place);
      probe_.samples.add(number_, v.op, v.dtype, v.in_place, bytes, seconds);
      guess = mean_without_outliers(seconds) * 4;
      if (bytes < largest_ && bytes * 4 > largest_ && v.op != Op::barrier) bytes = largest_ / 4;
    }
  }

  const Probe& probe_;
  std::size_t number_;
  std::int64_t largest_;
  CollectiveProbe collectives_;
  NetworkLevel level_;
};

}  // namespace

std::vector<NetworkLevel> probe_collectives(const Probe& probe) {
  const World& world = probe.world;
  const int ranks = world.peers.size(), of_node = world.node.ranks;
  std::vector<NetworkLevel> levels;
  if (ranks < 2) return levels;
  // The nodes' own collectives are measured on all nodes at once, as a run has them; rank 0 writes.
  if (of_node < ranks && world.peers.gather(of_node).front() > 1)
    levels.push_back(LevelProbe(probe, ranks_of_node(world.comm).get(), 0, of_node).run());
  levels.push_back(LevelProbe(probe, world.comm, levels.size(), of_node).run());
  return levels;
}

}  // namespace shardmark
