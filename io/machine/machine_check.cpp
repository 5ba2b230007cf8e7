// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/machine/machine_file.hpp>

namespace shardmark {
namespace {

using Sentences = std::vector<std::string>;

// An operating system alone takes far less of the processors' time.
constexpr double noisy_part = 0.05;

void check_products(const DeviceModel& d, Sentences& said) {
  if (d.products.empty())
    said.push_back(
        fmt::format("device.products: missing: every matrix product is priced at {} of the peak",
                    d.product_efficiency));
  for (std::size_t i = 0; i < d.products.size(); ++i) {
    const ProductTimes& t = d.products[i];
    const double peak = d.peak_flops[t.dtype];
    for (const auto& p : t.points) {
      const double rate = 2 * p.m * p.n * p.k * p.batch / p.seconds;
      if (peak > 0 && rate > 1.05 * peak) {
        said.push_back(fmt::format(
            "device.products[{}]: absurd: {} x {} x {} runs at {:.3g} Tflop/s, above the peak of "
            "{:.3g}",
            i, p.m, p.n, p.k, rate * 1e-12, peak * 1e-12));
        break;
      }
    }
  }
  if (std::all_of(d.peak_flops.begin(), d.peak_flops.end(), [](double p) { return p == 0; }))
    said.push_back("device.peak_tflops: missing: MFU cannot be given");
}

void check_streams(const DeviceModel& d, Sentences& said) {
  if (d.memory_bytes_per_s == 0)
    said.push_back(
        "device.memory_gb_per_s: missing: kernels without measured points are priced at no time");
  if (d.streams.empty())
    said.push_back(fmt::format(
        "device.streams: missing: all kernels but products are priced at {} of the bandwidth of "
        "memory",
        d.stream_efficiency));
}

void check_level(const NetworkLevel& n, std::size_t i, Sentences& said) {
  const std::string key = fmt::format("network[{}]", i);
  if (n.collectives.empty() && n.link.bytes_per_s == 0)
    said.push_back(key + ": missing: neither collectives nor link.gb_per_s: collectives are free");
  if (n.collectives.empty() && n.link.bytes_per_s > 0)
    said.push_back(key +
                   ".collectives: missing: collectives are priced by latency and bandwidth "
                   "of the link");
  for (const CollectiveTimes& t : n.collectives) {
    if (t.points.empty())
      said.push_back(
          fmt::format("{}: {} among {} ranks has no points", key, to_string(t.op), t.ranks));
    if (t.ranks_per_node > t.ranks)
      said.push_back(fmt::format("{}: absurd: {} has {} ranks, {} of them on a node", key,
                                 to_string(t.op), t.ranks, t.ranks_per_node));
  }
}

}  // namespace

void require_ranks(const Machine& m, const std::string& path, int ranks, int ranks_per_node) {
  const auto has_level = [&](bool between) {
    return std::ranges::find(m.network, between, &NetworkLevel::between_nodes) != m.network.end();
  };
  const bool shares_node = std::min(ranks, ranks_per_node) > 1;
  if (shares_node && has_level(true) && !has_level(false))
    throw DeckError(
        fmt::format("{}: network: missing: {} ranks per node need a level with between_nodes "
                    "false: add one, or give --ranks-per-node 1",
                    path, std::min(ranks, ranks_per_node)));
  if (!m.device.is_host && m.node.ranks > 0 && std::min(ranks, ranks_per_node) > m.node.ranks)
    throw DeckError(
        fmt::format("{}: node.ranks = {}: {} ranks per node are more than the devices of a node: "
                    "give --ranks-per-node {}",
                    path, m.node.ranks, std::min(ranks, ranks_per_node), m.node.ranks));
  if (ranks > ranks_per_node && !has_level(true))
    throw DeckError(fmt::format(
        "{}: network: missing: {} ranks with {} per node need a level with between_nodes true: add "
        "one, or ask for at most {} ranks",
        path, ranks, ranks_per_node, ranks_per_node));
  const std::int64_t most = std::int64_t{m.node.nodes} * ranks_per_node;
  if (m.node.nodes > 0 && ranks > most)
    throw DeckError(fmt::format(
        "{}: node.nodes = {}: {} ranks are more than the {} of this machine: ask for at most {} "
        "ranks",
        path, m.node.nodes, ranks, most, most));
}

std::vector<std::string> check_machine(const Machine& m) {
  Sentences said;
  check_products(m.device, said);
  check_streams(m.device, said);
  if (m.network.empty())
    said.push_back("network: missing: only one rank can be predicted; collectives are free");
  for (std::size_t i = 0; i < m.network.size(); ++i) check_level(m.network[i], i, said);
  if (m.to_device.points.empty() && m.to_device.link.bytes_per_s == 0)
    said.push_back("host_link: missing: copies between host and device are free");
  if (assumes_host_memory(m))
    said.push_back(fmt::format(
        "node.memory_gb_per_s: missing: updates of offloaded states are priced with {:.0f} GB/s of "
        "host memory per node",
        assumed_host_bytes_per_s * 1e-9));
  if (m.disk_read.points.empty() && m.disk_read.link.bytes_per_s == 0)
    said.push_back("disk: missing: transfers of files are free");
  if (m.jitter.step_quantiles.empty() && m.jitter.step_relative_sd == 0)
    said.push_back("jitter: missing: intervals are guessed at 5 %");
  if (m.jitter.noise && m.jitter.noise->lost_part > noisy_part)
    said.push_back(fmt::format(
        "jitter.noise.lost_part = {:.2g}: absurd for a machine of its own: other work ran while it "
        "was measured",
        m.jitter.noise->lost_part));
  if (m.provenance.source.empty() && m.provenance.host.empty())
    said.push_back("provenance: missing: nobody can tell where these figures come from");
  if (m.provenance.busy.value_or(false))
    said.push_back("provenance.busy: the machine was busy while it was measured");
  return said;
}

}  // namespace shardmark
