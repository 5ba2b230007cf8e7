// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/named_ranks.hpp>
#include <core/plan/deck/perturb.hpp>
#include <core/random.hpp>

namespace shardmark {
namespace {

constexpr double longest_pause = 1000;  // in units of pause_ms
// Streams of random numbers that differ from those of initial values and tokens.
enum PerturbStream : std::uint64_t { chosen_ranks = 3'000'000'000, chosen_steps, pause_lengths };

// Above 0 and at most 1.
double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
}

std::uint64_t draw(const PerturbSpec& spec, PerturbStream stream, int rank, std::int64_t step) {
  return splitmix64(mix(spec.seed, stream, static_cast<std::uint64_t>(rank)) ^
                    splitmix64(static_cast<std::uint64_t>(step)));
}

}  // namespace

std::vector<int> slowed_ranks(const PerturbSpec& spec, const std::vector<std::string>& hosts,
                              const std::string& deck) {
  const auto world = static_cast<int>(hosts.size());
  std::set<int> slowed = named_ranks(spec.ranks, spec.hosts, hosts, "perturb", deck);
  if (spec.random > world)
    throw DeckError(
        fmt::format("{}: perturb.random = {}: must be at most {}, the ranks of this run", deck,
                    spec.random, world));
  std::vector<std::pair<std::uint64_t, int>> order;
  for (int r = 0; r < world; ++r) order.emplace_back(draw(spec, chosen_ranks, r, 0), r);
  std::ranges::sort(order);
  for (std::int64_t i = 0; i < spec.random; ++i)
    slowed.insert(order[static_cast<std::size_t>(i)].second);
  return {slowed.begin(), slowed.end()};
}

Slowness slowness(const PerturbSpec& spec, int rank, std::int64_t step) {
  if (step % spec.every != 0) return {};
  if (uniform(draw(spec, chosen_steps, rank, step)) > spec.probability) return {};
  double pause_ms = spec.pause_ms;
  if (spec.tail) {
    const double u = uniform(draw(spec, pause_lengths, rank, step));
    pause_ms *= std::min(longest_pause, std::pow(u, -1 / *spec.tail));
  }
  return {.factor = spec.factor,
          .pause_ns = static_cast<std::int64_t>(pause_ms * 1e6),
          .memory = spec.memory};
}

std::string describe(const PerturbSpec& spec) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (spec.factor > 1) add(fmt::format("factor {:g}", spec.factor));
  if (spec.pause_ms > 0)
    add(spec.tail ? fmt::format("heavy-tailed pauses from {:g} ms", spec.pause_ms)
                  : fmt::format("pauses of {:g} ms", spec.pause_ms));
  if (spec.memory.gbps > 0) add(fmt::format("{:g} GB/s of memory traffic", spec.memory.gbps));
  if (spec.memory.share > 0)
    add(fmt::format("memory traffic in {:g} of the time", spec.memory.share));
  if (spec.every > 1) add(fmt::format("every {} steps", spec.every));
  if (spec.probability < 1) add(fmt::format("probability {:g}", spec.probability));
  return text;
}

}  // namespace shardmark
