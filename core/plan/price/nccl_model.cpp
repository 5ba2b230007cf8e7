// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include <core/plan/price/nccl_model.hpp>

namespace shardmark {
namespace {

constexpr double nccl_us = 1e-6, nccl_gb = 1e9;

using ByProtocol = std::array<double, 3>;  // LL, LL128, Simple
using ByNodes = std::array<double, 3>;     // 1 node, 2 nodes, more
using ByGeneration = std::array<ByNodes, 4>;

// Microseconds.
constexpr ByProtocol base_latency{6.6, 14.0, 8.4}, base_latency_tree{6.8, 14.0, 8.4};
constexpr ByProtocol ring_nvlink{0.6, 1.9, 3.4}, ring_pci{1.0, 2.5, 5.7},
    ring_network{2.7, 4.0, 14.0};
constexpr ByProtocol tree_nvlink{0.6, 1.25, 4.0}, tree_pci{1.0, 1.9, 4.0},
    tree_network{5.0, 8.5, 14.0};
constexpr double nvls_latency = 25;

// GB/s per GPU, and per channel of a GPU.
constexpr ByGeneration ll_at_most{
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr ByGeneration ring_ll128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr ByGeneration tree_ll128{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr ByGeneration tree_simple{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr std::array<double, 4> nvls_efficiency{0, 0, 0.85, 0.74};

// What trees reach of their bandwidth, by the logarithm of the size, from 64 bytes on.
constexpr std::array<std::array<double, 24>, 3> tree_correction{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

// One collective among given ranks; estimates each algorithm with each protocol.
class NcclCall {
 public:
  NcclCall(Op op, double bytes, const NcclTopology& t, int ranks, int nodes)
      : op_(op),
        bytes_(bytes),
        t_(t),
        generation_(static_cast<std::size_t>(t.generation)),
        by_nodes_(static_cast<std::size_t>(nodes <= 2 ? nodes - 1 : 2)),
        nodes_(nodes),
        n_(ranks),
        steps_(op == Op::all_reduce                      ? 2.0 * (ranks - 1)
               : op == Op::reduce || op == Op::broadcast ? ranks
                                                         : ranks - 1.0) {}

  // Negative: the algorithm does not serve this call.
  double seconds(NcclAlgorithm a, NcclProtocol protocol) const {
    const auto p = static_cast<std::size_t>(protocol);
    switch (a) {
      case NcclAlgorithm::ring: return t_.ring.count == 0 ? -1 : ring(p);
      case NcclAlgorithm::tree: return t_.tree.count == 0 || op_ != Op::all_reduce ? -1 : tree(p);
      case NcclAlgorithm::nvls:
        return t_.nvls.count == 0 || nodes_ > 1 || protocol != NcclProtocol::simple ||
                       op_ == Op::reduce || op_ == Op::broadcast
                   ? -1
                   : nvls();
    }
    return -1;
  }

 private:
  static double bus_of(const NcclChannels& c) { return c.count * c.bytes_per_s / nccl_gb; }
  // NCCL takes the row of the GPU on one node, and one of the host's maker on several.
  double ll_limit() const {
    return ll_at_most[nodes_ == 1 ? generation_ : t_.amd_host ? 1 : 0][by_nodes_];
  }
  double time(double latency_us, double algorithm_gb_per_s) const {
    return latency_us * nccl_us + bytes_ / (algorithm_gb_per_s * nccl_gb);
  }

  double ring(std::size_t p) const {
    double bus = bus_of(t_.ring);
    if (p == 0) bus = std::min(ll_limit(), bus * 0.5);
    if (p == 1) bus = std::min(bus * 0.92, t_.ring.count * ring_ll128[generation_][by_nodes_]);
    const double overhead = nodes_ == 1 ? 0 : (t_.amd_host ? 2.0 : 1.0) * (p == 2 ? 3 : 1);
    const double between = nodes_ == 1 ? 0 : (op_ == Op::all_reduce ? 2.0 : 1.0) * (nodes_ - 1);
    const double hop = std::max((t_.over_pci ? ring_pci : ring_nvlink)[p], overhead);
    const double network = ring_network[p] + t_.network_s / nccl_us * (p == 2 ? 2 : 1);
    double latency = base_latency[p] + (steps_ - between) * hop + between * network;
    if (p == 2 && nodes_ > 1 && op_ == Op::all_reduce && bytes_ / (t_.ring.count * n_) >= 64)
      latency *= generation_ == 0 ? 1.9 : 1.4;
    return time(latency, bus * n_ / steps_);
  }

  double tree(std::size_t p) const {
    double bus =
        std::min(bus_of(t_.tree) * 0.92, t_.tree.count * tree_simple[generation_][by_nodes_]);
    if (p == 0) bus = std::min(bus / 3.8, ll_limit());
    if (p == 1)
      bus = std::min(bus * (nodes_ == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                     t_.tree.count * tree_ll128[generation_][by_nodes_]);
    bus *= 0.5;
    if (bytes_ >= 64) {
      const auto size = static_cast<std::size_t>(std::log2(bytes_ / 64));
      if (size < tree_correction[p].size()) bus *= tree_correction[p][size];
    }
    const double hop = (t_.over_pci ? tree_pci : tree_nvlink)[p];
    const double network = tree_network[p] + t_.network_s / nccl_us * (p == 2 ? 2 : 1);
    const int others_on_node = n_ / nodes_ - 1;
    return time(base_latency_tree[p] + 2 * (others_on_node * hop + std::log2(nodes_) * network),
                bus);
  }

  double nvls() const {
    const double c = t_.nvls.count;
    double bus = bus_of(t_.nvls) * nvls_efficiency[generation_] * (c - 1) / c;
    bus *= op_ == Op::all_reduce
               ? 2
               : (static_cast<double>(n_) / nodes_ - 1) / (static_cast<double>(n_) / nodes_);
    return time(nvls_latency, op_ == Op::all_reduce ? bus * n_ / steps_ : bus);
  }

  Op op_;
  double bytes_;
  const NcclTopology& t_;
  std::size_t generation_, by_nodes_;
  int nodes_, n_;
  double steps_;
};

}  // namespace

NcclEstimate nccl_estimate(Op op, double bytes, const NcclTopology& topology, int ranks,
                           int nodes) {
  NcclEstimate best;
  const bool known = op == Op::all_reduce || op == Op::all_gather || op == Op::reduce_scatter ||
                     op == Op::reduce || op == Op::broadcast;
  if (!known || ranks < 2) return best;
  const NcclCall call(op, bytes, topology, ranks, nodes);
  bool found = false;
  for (const NcclAlgorithm a : all_values<NcclAlgorithm>)
    for (const NcclProtocol p : all_values<NcclProtocol>) {
      const double s = call.seconds(a, p);
      if (s < 0 || (found && s >= best.seconds)) continue;
      best = {s, a, p};
      found = true;
    }
  return best;
}

}  // namespace shardmark
