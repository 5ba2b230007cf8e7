// SPDX-License-Identifier: Apache-2.0
// A machine as plain data: what a program is priced on. io/machine reads it from a file, and
// docs/machines.md explains each key. Everything is in seconds, bytes and operations per second;
// the file has units in its key names. A figure that a machine file does not give is 0 or empty,
// and price() then uses the next coarser one: a measured point before an efficiency, an efficiency
// before a nominal peak.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <core/plan/deck/types.hpp>
#include <core/plan/price/nccl_model.hpp>

namespace shardmark {

/// A measured time at one size (bytes or elements).
struct TimePoint {
  double size = 0, seconds = 0;
};

/// How the operands of a product are stored: A B, A B^T or A^T B.
enum class ProductForm : std::uint8_t { nn, nt, tn };
template<>
inline constexpr auto value_names<ProductForm> = name_list("nn", "nt", "tn");

/// Measured times of matrix products of one kind.
struct ProductTimes {
  struct Point {
    double m = 0, n = 0, k = 0, batch = 1;
    double seconds = 0;  // of all products of the batch
  };
  Dtype dtype = Dtype::fp32;   // of the operands
  Dtype result = Dtype::fp32;  // of C
  ProductForm form = ProductForm::nn;
  bool accumulate = false;
  int busy_ranks = 1;  // ranks of the node that computed at the same time
  std::vector<Point> points;
};

/// Measured times of one kernel that is no product.
struct StreamTimes {
  struct Point {
    double elems = 0, width = 1;  // per launch
    double seconds = 0;
  };
  std::string kernel;  // Stream::kernel
  Dtype dtype = Dtype::fp32, source = Dtype::fp32;
  int busy_ranks = 1;
  bool updated = false;  // as Stream::updated
  std::vector<Point> points;
};

/// How a framework computes attention: in one kernel that keeps its scores on the chip and is
/// written for the device, in one that is not (FlashAttention-2), in one of the first generation
/// (FlashAttention of 2022), with scores in memory of which one kernel makes the softmax
/// (Megatron-LM), or with scores in memory and single operations.
enum class AttentionKernel : std::uint8_t {
  fused,
  portable_fused,
  first_fused,
  fused_softmax,
  unfused
};
template<>
inline constexpr auto value_names<AttentionKernel> = name_list("fused", "portable_fused",
                                                               "first_fused", "fused_softmax",
                                                               "unfused");

/// What the software of a run does with a device whose kernels are not measured. The defaults are
/// those of fused kernels, compiled or written by hand.
struct Software {
  bool eager = false;  // each operation is a kernel of its own, launched by an interpreter
  bool native_norms =
      false;  // eager norms and optimizers are one kernel each, not composed of many
  /// The loss is composed of single operations in fp32, as where the vocabulary can be divided over
  /// ranks (Megatron-LM). Only where eager.
  bool composed_loss = false;
  /// The host of eager software waits for the device at the end of each forward and backward pass,
  /// as timers do (Megatron-LM).
  bool synchronizes = false;
  AttentionKernel attention = AttentionKernel::fused;
  bool overlaps = true;       // collectives with computation
  bool fp8_products = false;  // those of linear layers, but for the head
  /// What eager operations move between products, relative to the bytes that each reads and writes.
  double eager_traffic = 1.5;
  /// What the host spends on one kernel of eager software: the interpreter, the module, the graph
  /// of gradients, and the launch.
  double eager_launch_s = 70e-6;
};

/// The device of one rank. On a CPU it is the cores that the rank has.
struct DeviceModel {
  std::string name;
  bool is_host = false;     // a CPU: the rank's own thread computes, copies and makes collectives
                            // progress, so none of these is free beside the others
  double memory_bytes = 0;  // per rank; 0: unknown
  EnumArray<Dtype, double> peak_flops{};  // of matrix products; 0: unknown
  double product_efficiency = 0.5;        // of the peak, for products without measured points
  EnumArray<Dtype, double> product_efficiency_of{};  // the same by type; 0: product_efficiency
  double memory_bytes_per_s = 0;                     // nominal, or as measured by a triad
  double stream_efficiency = 0.8;  // of memory_bytes_per_s, for kernels without measured points
  /// At which part of memory_bytes_per_s products without measured points read their operands and
  /// write their result, in addition to their arithmetic: small products are slower than large
  /// ones. 0: their arithmetic alone counts.
  double product_operand_efficiency = 0;
  /// Processors that compute the tiles of a product; 0: products follow product_efficiency alone.
  /// Otherwise that is the part of the peak which all of them reach together while they multiply.
  int multiprocessors = 0;
  /// The columns of the inner dimension in whose time a tile is begun and stored.
  double product_fill_depth = 0;
  /// The length of a head whose products take as long as the exponentials of their scores; 0: they
  /// take no time. Only with multiprocessors.
  double softmax_depth = 0;
  double fp8_flops = 0;  // peak of products of fp8; 0: unknown, and fp8 is as fast as bf16
  /// What fused attention that is not written for this device reaches, relative to one that is.
  double portable_attention = 1;
  /// Attention as one fused kernel that keeps its scores on the chip: the parts of the peak that
  /// its products reach in forward and in backward. 0: its kernels are priced one by one.
  double attention_efficiency = 0, attention_backward_efficiency = 0;
  double launch_s = 0;  // shortest time of a kernel
  double event_s = 0;   // of the host thread, per event of a plan
  std::vector<ProductTimes> products;
  std::vector<StreamTimes> streams;
};

/// A connection as latency and bandwidth.
struct LinkModel {
  double latency_s = 0;
  double bytes_per_s = 0;  // per rank and direction; 0: unknown
  bool measured = false;   // otherwise the figures are nominal
  std::string source;      // where they come from
};

/// Measured times of one verb among `ranks` ranks, of which `ranks_per_node` share a node. Sizes
/// are those of the whole array in bytes, as nccl-tests counts them.
struct CollectiveTimes {
  Op op = Op::all_reduce;
  Dtype dtype = Dtype::fp32;
  int ranks = 2, ranks_per_node = 2;
  bool beside_compute = false;  // measured while all ranks computed
  /// What a rank sends is its part of what it receives, as nccl-tests means it. It copies less.
  bool in_place = false;
  std::vector<TimePoint> points;
};

/// One level of the network: within a node, or between nodes.
struct NetworkLevel {
  std::string name;
  bool between_nodes = false;
  std::string library;          // "shm", "mpi", "nccl", "rccl"
  std::string topology;         // "ring", "switch", …; empty: unknown
  LinkModel link;               // of one rank
  double node_bytes_per_s = 0;  // between nodes: of all links of a node together; 0: unlimited
  double oversubscription = 1;  // above the first switches
  double efficiency = 1;        // of the bandwidth, where only nominal figures are known
  /// The channels that NCCL or RCCL finds; times at other numbers of ranks than the measured ones
  /// then follow its model of rings, trees and NVLS.
  std::optional<NcclTopology> nccl;
  /// What a collective of one second takes from the compute lane while it is in flight, in seconds:
  /// 1 where the rank's own thread moves the data, near 0 where the network does.
  double compute_share = 0;
  /// The speed of a collective beside computation, relative to its speed alone.
  double speed_beside_compute = 1;
  std::vector<CollectiveTimes> collectives;
};

/// Copies in one direction: measured points, or latency and bandwidth.
struct CopyModel {
  LinkModel link;
  std::vector<TimePoint> points;
};

/// How much longer fixed quanta of work take than undisturbed ones, from `shardmark noise`. In
/// seconds.
struct NoiseModel {
  /// The noise of one rank.
  struct Rank {
    int rank = 0;
    std::string host;
    double lost_part = 0;           // of the time
    std::vector<TimePoint> delays;  // as below
  };
  double quantum_s = 0;  // of an undisturbed quantum
  std::int64_t quanta = 0;
  double lost_part = 0;            // of the time
  double detours_per_s = 0;        // of one rank
  double detour_s = 0;             // mean
  std::vector<TimePoint> delays;   // one in `size` quanta is delayed by more
  std::vector<TimePoint> slowest;  // expected delay of the slowest of `size` ranks in one quantum
  std::vector<TimePoint> periods;  // each `size` seconds an interruption takes so long
  std::vector<Rank> ranks;         // those that lost most
};

/// How far ranks of a node end apart that begin the same work together, because what disturbs the
/// core of one rank does not disturb those of the others.
struct RankSkew {
  int ranks = 0;                  // that were measured; 0: unknown, and nothing is priced
  std::vector<TimePoint> points;  // seconds of work -> how much later than their mean the last ends
};

/// The differences between repeated steps, and between ranks.
struct Jitter {
  double step_relative_sd = 0;  // standard deviation of a repeated step / its mean
  double rank_relative_sd = 0;  // of the same work on different ranks at the same time
  /// Quantiles of step time / median at probabilities 0, 1/(n-1), …, 1; empty: unknown.
  std::vector<double> step_quantiles;
  RankSkew rank_skew;
  std::optional<NoiseModel> noise;
};

struct NodeModel {
  /// How long a cache line takes from the core of a rank to that of its neighbour, if that never
  /// changed; 0: unknown.
  double core_to_core_s = 0;
  int cores = 0, sockets = 0, numa_domains = 0;
  int ranks = 0;                   // devices, or ranks that fit; 0: unknown
  int nodes = 0;                   // of the whole machine; 0: unknown
  bool shares_memory_bus = false;  // ranks of a node share the bandwidth of one memory
  /// Of the memory of the whole node: what its ranks share (shares_memory_bus), or beside devices
  /// the host's, in which offloaded states are updated; 0: unknown.
  double memory_bytes_per_s = 0;
  double host_memory_bytes = 0, disk_bytes = 0;  // 0: unknown
};

/// The bandwidth of a host's memory where a machine file gives none: that of two sockets with eight
/// channels of DDR4-3200 each.
inline constexpr double assumed_host_bytes_per_s = 400e9;
/// The part of it that updates of offloaded states reach: about what CPU-Adam reaches on two
/// sockets (Ren et al., ZeRO-Offload, USENIX ATC 2021, table 4).
inline constexpr double host_update_efficiency = 0.5;

/// Where a figure of a machine that nobody has calibrated comes from.
enum class FigureKind : std::uint8_t { nominal, measured, fitted, assumed };
template<>
inline constexpr auto value_names<FigureKind> = name_list("nominal", "measured", "fitted",
                                                          "assumed");
struct Figure {
  std::string key;  // as messages write it: network[0].link.gb_per_s; a section stands for its keys
  FigureKind kind = FigureKind::nominal;
  std::string source;
};

/// What the figures of a machine file were fitted on; empty or 0: nobody has said it.
struct FittedOn {
  std::int64_t least_hidden = 0, most_hidden = 0;
  int most_ranks = 0;
  std::vector<Dtype> types;
};

/// Where the figures come from.
struct MachineProvenance {
  std::string host, date, program, source;
  std::vector<std::string> commands, versions;
  std::int64_t calibrations = 1;  // the figures are means over so many
  std::int64_t samples = 0;
  double spread = 0;                     // median over points of (75th - 25th percentile) / median
  std::optional<bool> busy;              // other work ran during the measurements
  std::optional<double> held_out_error;  // mean |error| over points that interpolation left out
  /// The relative error that 9 of 10 published steps stay below if the figures are fitted without
  /// them.
  std::optional<double> crosswise_error_90;
  FittedOn fitted_on;
  std::string note;
  std::vector<Figure> figures;
};

/// How many figures there are of each kind.
using FigureCounts = EnumArray<FigureKind, int>;
inline FigureCounts figure_counts(const MachineProvenance& provenance) {
  FigureCounts counts{};
  for (const Figure& figure : provenance.figures) ++counts[figure.kind];
  return counts;
}

/// What depends on where the cores of a node's ranks are: on whether they share a cache, and the
/// way to memory. Cores that do exchange data faster, and stream from memory more slowly, than
/// cores that do not.
struct Placement {
  double core_to_core_s = 0;  // one way, between neighbouring ranks
  double part = 0;            // of the calibration, in which the cores were like this
  std::vector<StreamTimes> streams;
  std::vector<NetworkLevel> network;
};

struct Machine {
  static constexpr int schema_version = 1;
  std::string name;
  MachineProvenance provenance;
  NodeModel node;
  DeviceModel device;
  std::vector<NetworkLevel> network;  // within a node first
  /// Where the cores were during the calibration, if the host of a virtual machine moved them. The
  /// figures of the device and the network are then the means over all placements. Empty if the
  /// cores stayed where they were.
  std::vector<Placement> placements;
  CopyModel to_device, to_host;  // the link between host and device
  CopyModel disk_read, disk_write;
  Jitter jitter;
  double step_s = 0;  // what each step costs in addition to its events
  Software software;
};

/// Whether the bandwidth of host memory is assumed. On a CPU it is the device's own.
inline bool assumes_host_memory(const Machine& machine) {
  return !machine.device.is_host && machine.node.memory_bytes_per_s <= 0;
}

/// How many times as long the own work of a rank takes among `busy` ranks of a node as where it was
/// measured among `measured` ones, because ranks without a core of their own take turns. 1 unless
/// the ranks compute on the cores of the node.
inline double turns_on_cores(const Machine& machine, int busy, int measured) {
  if (!machine.device.is_host || machine.node.cores <= 0) return 1;
  return static_cast<double>(std::max(busy, machine.node.cores)) /
         std::max(measured, machine.node.cores);
}

/// Cores that are so many times as far apart are in another placement.
inline constexpr double other_placement = 2.5;
inline bool is_other_placement(double core_to_core_s, double than_s) {
  return std::max(core_to_core_s, than_s) > other_placement * std::min(core_to_core_s, than_s);
}

/// Among elements with a `core_to_core_s` above 0, the one that comes closest to the measured
/// distance by ratio. The range must not be empty.
template<class Iterator>
Iterator nearest_placement(Iterator first, Iterator last, double core_to_core_s) {
  const auto apart = [&](const auto& p) {
    return std::abs(std::log(p.core_to_core_s / core_to_core_s));
  };
  return std::ranges::min_element(first, last, {}, apart);
}

/// The machine while its cores are as far apart as measured: with the figures of the placement that
/// comes closest. 0: unknown, and nothing changes.
Machine in_placement(Machine machine, double core_to_core_s);

}  // namespace shardmark
