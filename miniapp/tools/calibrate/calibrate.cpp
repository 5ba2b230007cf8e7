// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/core.h>
#include <unistd.h>

#include <core/kokkos_shim.hpp>
#include <core/memory/device_memory.hpp>
#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/run/progress.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>
#include <miniapp/tools/calibrate/probe.hpp>
#include <miniapp/tools/calibrate/state_timer.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

// A rank that computes alone should have a core to itself; less than this part means other work.
constexpr double busy_below = 0.97;
// So long after the beginning no model is begun for the second time. Collectives and noise follow,
// and the whole takes less than three minutes.
constexpr double models_until_s = 140;
constexpr double all_until_s = 180;

double quantile(std::vector<double> sorted, double p) {
  std::ranges::sort(sorted);
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

void describe_jitter(const StepSamples& steps, Jitter& jitter) {
  const std::vector<double>& ratios = steps.step_over_median;
  if (ratios.size() < 5) return;
  double squares = 0;
  for (const double r : ratios) squares += (r - 1) * (r - 1);
  jitter.step_relative_sd = std::min(1.0, std::sqrt(squares / static_cast<double>(ratios.size())));
  for (int i = 0; i <= 10; ++i) jitter.step_quantiles.push_back(quantile(ratios, 0.1 * i));
}

// The highest rates that were seen, which are what the machine gives.
void describe_peaks(Machine& m) {
  DeviceModel& d = m.device;
  for (const ProductTimes& t : d.products)
    for (const auto& p : t.points)
      d.peak_flops[t.dtype] =
          std::max(d.peak_flops[t.dtype], 2 * p.m * p.n * p.k * p.batch / p.seconds);
  double launch = 1;
  for (const StreamTimes& t : d.streams)
    for (const auto& p : t.points) {
      launch = std::min(launch, p.seconds);
      // AdamW in fp32 reads 16 bytes and writes 12 per element.
      if (t.kernel == "adamw_update" && t.dtype == Dtype::fp32 && t.source == Dtype::fp32)
        d.memory_bytes_per_s = std::max(d.memory_bytes_per_s, 28 * p.elems / p.seconds);
    }
  d.launch_s = launch;
}

void describe_attention(const AttentionRates& rates, DeviceModel& d) {
  const double peak = d.peak_flops[rates.dtype];
  if (peak <= 0) return;
  d.attention_efficiency = rates.forward / peak;
  d.attention_backward_efficiency = rates.backward / peak;
}

void describe_machine(const World& world, const StepSamples& steps, Machine& m) {
  const Node& node = world.node;
  m.name = node.host;
  m.node.cores = node.cores;
  m.node.ranks = node.ranks;
  m.node.shares_memory_bus = device_is_host;
  m.device.name = device_is_host ? processor_model() : "GPU";
  m.device.is_host = device_is_host;
  if (!steps.event_s.empty())  // of small models, where nothing else is in it
    m.device.event_s = quantile(steps.event_s, 0.25);
  MachineProvenance& p = m.provenance;
  p.host = node.host;
  p.date = utc_now();
  p.program = fmt::format("shardmark {}", version());
  for (const auto& [name, number] : library_versions())
    p.versions.push_back(fmt::format("{} {}", name, number));
  if (!steps.cpu_part.empty()) p.busy = quantile(steps.cpu_part, 0.5) < busy_below;
}

// Collective. A machine file describes nodes that are alike.
void require_equal_nodes(const World& world) {
  const std::vector<int> of_nodes = world.peers.gather(world.node.ranks);
  const auto [least, most] = std::ranges::minmax_element(of_nodes);
  if (*least != *most)
    throw DeckError(fmt::format(
        "calibrate: the nodes have {} to {} ranks: a machine file describes nodes that are alike: "
        "start as many ranks on each of them",
        *least, *most));
}

}  // namespace

Calibration calibrate(const CalibrateArguments& a, const World& world) {
  Calibration c;
  Machine& m = c.machine;
  std::optional<Deck> deck;
  world.peers.agree([&] {
    require_equal_nodes(world);
    if (!a.deck.empty()) deck = read_deck(a.deck, a.sets, DeckUse::plan).deck;
  });
  ProgressLine line(world.peers.rank() == 0);
  const auto announce = [&](const std::string& what) {
    const double seconds = line.seconds();
    const bool bounded = !a.quick && seconds < all_until_s;
    line.show(fmt::format(
        "calibrating for {}{}: {}", clock_time(seconds),
        bounded ? fmt::format(", at most {} left", clock_time(all_until_s - seconds)) : "", what));
  };
  Samples samples;
  StepSamples alone, together;
  CoreDistance cores(ranks_of_node(world.comm).get());
  Probe probe{.world = world,
              .quick = a.quick,
              .busy_ranks = world.node.ranks,
              .samples = samples,
              .cores = cores,
              .progress = announce};
  // Times computation on so many ranks of the node. Everything else is measured on all of them,
  // since they share the memory's bandwidth and the disk.
  const auto compute = [&](int ranks) {
    probe.busy_ranks = ranks;
    StepSamples& steps = ranks == 1 ? alone : together;
    if (deck) probe_quantization(probe, *deck);
    if (deck && traits(deck->model.family).has_arithmetic) probe_models(probe, &*deck, steps);
    StateTimer states(probe);
    probe_models(probe, nullptr, steps, [&] { probe_states(probe, states); });
    probe.busy_ranks = world.node.ranks;
  };
  const bool several = world.node.ranks > 1;
  // Collectives and copies come between the models, so that they meet the cores wherever these are.
  const auto measure = [&] {
    if (several) compute(world.node.ranks);
    m.network = probe_collectives(probe);
    probe_copies(probe);
    compute(1);
  };
  if (!device_is_host)
    if (const auto free = find_device_memory(world.node.ranks))
      m.device.memory_bytes = static_cast<double>(free->bytes);
  const AttentionRates attention = probe_attention(probe, deck ? &*deck : nullptr);
  measure();
  probe_disk(probe, a.disk, m);
  // Once more, so that a minute in which the machine was slower does not decide.
  if (!a.quick) {
    probe.out_of_time = [&] { return world.peers.max(line.seconds()) > models_until_s; };
    probe_collectives(probe);
    measure();
    probe_collectives(probe);
    probe_copies(probe);
  }
  NoiseArguments noise;
  if (a.quick) noise.seconds = 2;
  describe_noise(measure_noise(noise, world, announce), m);

  samples.fill(m);
  StepSamples& steps = several ? together : alone;
  describe_jitter(steps, m.jitter);
  m.jitter.rank_skew = together.skew.result();
  describe_peaks(m);
  describe_attention(attention, m.device);
  describe_machine(world, steps, m);
  c.left_out = leave_one_out(m.device);
  smooth(m.device.products);
  smooth(m.device.streams);
  for (Placement& p : m.placements) smooth(p.streams);
  m.provenance.samples = samples.count();
  m.provenance.spread = samples.spread();
  m.provenance.held_out_error = held_out_error(c.left_out);
  c.seconds = line.seconds();
  m.provenance.commands.push_back(
      fmt::format("calibrate on {}{}{}", plural(world.peers.size(), "rank"),
                  a.quick ? " --quick" : "", a.deck.empty() ? "" : " --for " + a.deck));
  return c;
}

}  // namespace shardmark
