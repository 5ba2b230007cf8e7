// SPDX-License-Identifier: Apache-2.0
// The time of a collective as NCCL itself estimates it when it chooses an algorithm and a protocol
// (NCCL 2.30.7, src/graph/tuning.cc: ncclTopoTuneModel and ncclTopoGetAlgoTime). Its asymptotes of
// rings are right to a few per cent; between 1 and 128 MiB it is 30 to 180 % too fast. Prices
// therefore start from measured tables and use the model to extrapolate to other numbers of ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include <core/enum_array.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

/// The generation of a GPU, for which NCCL has constants of its own.
enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
template<>
inline constexpr auto value_names<GpuGeneration> = name_list("volta", "ampere", "hopper",
                                                             "blackwell");

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls };
template<>
inline constexpr auto value_names<NcclAlgorithm> = name_list("ring", "tree", "nvls");

enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
template<>
inline constexpr auto value_names<NcclProtocol> = name_list("LL", "LL128", "Simple");

/// Channels of an algorithm as NCCL's search finds them (NCCL_DEBUG_SUBSYS=GRAPH prints them).
struct NcclChannels {
  int count = 0;           // 0: the algorithm cannot be used
  double bytes_per_s = 0;  // of one channel
};

/// What NCCL knows about ranks that communicate. The channels are those of the ranks in question:
/// the network between nodes may carry fewer than a node's own links.
struct NcclTopology {
  GpuGeneration generation = GpuGeneration::hopper;
  NcclChannels ring, tree, nvls;
  bool amd_host = false;  // NCCL has other constants for AMD's processors
  double network_s = 0;   // latency of the network adapter, `latencyInter`
  bool over_pci = false;  // ranks of a node are joined by PCIe alone
};

/// NCCL's choice for one collective.
struct NcclEstimate {
  double seconds = 0;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
};

/// The time of all_reduce, all_gather, reduce_scatter, reduce or broadcast among `ranks` ranks on
/// `nodes` nodes; `bytes` is the whole array. Other verbs and a single rank take no time.
NcclEstimate nccl_estimate(Op op, double bytes, const NcclTopology& topology, int ranks, int nodes);

}  // namespace shardmark
