// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/clock.hpp>
#include <core/random.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

constexpr int rounds_per_look = 32;
constexpr double block_wanted_s = 0.1;
// The values that all ranks together hold of all distributions.
constexpr std::size_t most_samples = std::size_t{1} << 22;
constexpr int scales[] = {64, 1024, 16384};

// A chain of operations on registers, each of which needs the one before: its time depends on
// neither caches nor memory.
std::uint64_t work(std::uint64_t x, std::int64_t iterations) {
  for (std::int64_t i = 0; i < iterations; ++i) x = splitmix64(x);
  return x;
}

class NoiseProbe {
 public:
  NoiseProbe(const NoiseArguments& a, const World& world)
      : peers_(world.peers), quantum_s_(a.quantum_us * 1e-6), half_s_(0.5 * a.seconds) {
    // Memory is touched now, so that no page faults are measured.
    const double most = 1.5 * half_s_ / quantum_s_ + fewest_quanta_per_loop;
    quanta_.resize(static_cast<std::size_t>(most));
  }

  // Returns how many iterations take one quantum on the slowest rank if nothing disturbs it.
  std::int64_t choose_iterations() {
    iterations_ = 1000;
    for (int round = 0; round < 3; ++round) {
      double fastest_s = 1e9;
      for (int i = 0; i < 20; ++i) fastest_s = std::min(fastest_s, timed_quantum());
      const double wanted =
          static_cast<double>(iterations_) * quantum_s_ / std::max(1e-9, fastest_s);
      iterations_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(peers_.min(wanted)));
    }
    return iterations_;
  }

  // Quanta without any communication between them.
  std::vector<Quantum> alone() {
    peers_.barrier();
    const std::int64_t start_ns = monotonic_ns();
    std::size_t done = 0;
    while (done < quanta_.size()) {
      const double start_s = seconds_since(start_ns);
      if (start_s >= half_s_ && done >= fewest_quanta_per_loop) break;
      quanta_[done++] = {start_s, timed_quantum()};
    }
    return {quanta_.begin(), quanta_.begin() + static_cast<std::ptrdiff_t>(done)};
  }

  // The mean time of a barrier of ranks that do nothing else.
  double barrier_s() {
    constexpr int barriers = 200;
    for (int i = 0; i < 20; ++i) peers_.barrier();
    const std::int64_t start_ns = monotonic_ns();
    for (int i = 0; i < barriers; ++i) peers_.barrier();
    return peers_.max(seconds_since(start_ns)) / barriers;
  }

  // Quanta with a barrier after each. The ranks agree now and then whether time is left, which is
  // not counted.
  SynchronizedLoop together() {
    SynchronizedLoop loop;
    std::vector<double> mine;
    mine.reserve(quanta_.size());
    double in_rounds_s = 0;
    const std::int64_t start_ns = monotonic_ns();
    do {
      peers_.barrier();
      const std::int64_t look_ns = monotonic_ns();
      for (int i = 0; i < rounds_per_look; ++i) {
        mine.push_back(timed_quantum());
        peers_.barrier();
      }
      in_rounds_s += seconds_since(look_ns);
    } while (peers_.max(seconds_since(start_ns)) < half_s_ || mine.size() < fewest_quanta_per_loop);
    loop.rounds = std::ssize(mine);
    loop.round_s = peers_.max(in_rounds_s) / static_cast<double>(loop.rounds);
    peers_.max(mine);
    for (const double s : mine) loop.slowest_s += s / static_cast<double>(loop.rounds);
    return loop;
  }

 private:
  double timed_quantum() {
    const std::int64_t start_ns = monotonic_ns();
    sink_ = work(sink_, iterations_);
    return seconds_since(start_ns);
  }

  Peers& peers_;
  double quantum_s_, half_s_;
  std::int64_t iterations_ = 0;
  volatile std::uint64_t sink_ = 1;
  std::vector<Quantum> quanta_;
};

// The distributions of all ranks, in rank order. What is too much for one rank is thinned.
std::vector<Distribution> gather(Peers& peers, const Distribution& mine) {
  const auto most =
      std::max<std::size_t>(200, most_samples / static_cast<std::size_t>(peers.size()));
  std::vector<Distribution::Value> values = thinned(mine, most).values;
  const auto longest = static_cast<std::size_t>(peers.max(static_cast<double>(values.size())));
  values.resize(longest);  // with counts of zero
  const std::vector<Distribution::Value> all = peers.gather(values);
  std::vector<Distribution> found(static_cast<std::size_t>(peers.size()));
  for (std::size_t r = 0; r < found.size(); ++r)
    for (std::size_t i = r * longest; i < (r + 1) * longest && all[i].count > 0; ++i)
      found[r].values.push_back(all[i]);
  return found;
}

void gather_periods(Peers& peers, const std::vector<Period>& mine, std::vector<NoiseGroup>& ranks) {
  constexpr std::size_t most = 3;
  std::vector<Period> padded = mine;
  padded.resize(most);  // with periods of zero
  const std::vector<Period> all = peers.gather(padded);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].period_s > 0) ranks[i / most].periods.push_back(all[i]);
}

double spread(Peers& peers, const std::vector<Quantum>& quanta, std::size_t per_block) {
  std::vector<double> blocks;
  for (std::size_t i = 0; i + per_block <= quanta.size(); i += per_block) {
    double s = 0;
    for (std::size_t k = i; k < i + per_block; ++k) s += quanta[k].seconds;
    blocks.push_back(s);
  }
  const auto fewest = static_cast<std::size_t>(peers.min(static_cast<double>(blocks.size())));
  blocks.resize(fewest);
  const std::vector<double> all = peers.gather(blocks);
  std::vector<std::vector<double>> by_rank;
  for (std::size_t r = 0; r < static_cast<std::size_t>(peers.size()); ++r)
    by_rank.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(r * fewest),
                         all.begin() + static_cast<std::ptrdiff_t>((r + 1) * fewest));
  return rank_spread(by_rank);
}

// Joins ranks; `of` says which.
template<class Of>
NoiseGroup joined(const std::vector<NoiseGroup>& ranks, Of of) {
  NoiseGroup group;
  group.ranks = 0;
  std::vector<Distribution> delays;
  for (const NoiseGroup& r : ranks) {
    if (!of(r)) continue;
    ++group.ranks;
    group.figures += r.figures;
    delays.push_back(r.delays);
  }
  group.delays = merged(delays);
  return group;
}

void join_ranks(Noise& noise) {
  noise.all = joined(noise.ranks, [](const NoiseGroup&) { return true; });
  std::vector<std::string> hosts;
  for (const NoiseGroup& r : noise.ranks)
    if (std::find(hosts.begin(), hosts.end(), r.host) == hosts.end()) hosts.push_back(r.host);
  for (const std::string& host : hosts) {
    noise.hosts.push_back(joined(noise.ranks, [&](const NoiseGroup& r) { return r.host == host; }));
    noise.hosts.back().host = host;
  }
}

}  // namespace

Noise measure_noise(const NoiseArguments& a, const World& world,
                    const std::function<void(const std::string& what)>& announce) {
  const std::int64_t start_ns = monotonic_ns();
  Peers& peers = world.peers;
  Noise noise;
  noise.arguments = a;
  noise.date = utc_now();
  NoiseProbe probe(a, world);
  noise.iterations = probe.choose_iterations();
  announce("noise, ranks on their own");
  const std::vector<Quantum> quanta = probe.alone();
  announce("noise, ranks that wait for each other");
  noise.loop = probe.together();
  noise.loop.barrier_s = probe.barrier_s();

  const double undisturbed_s = undisturbed_quantum(quanta);
  const NoiseFigures mine = noise_figures(quanta, undisturbed_s);
  std::vector<double> times;
  std::vector<Detour> detours;
  for (const Quantum& q : quanta) {
    times.push_back(q.seconds);
    if (const double delay = q.seconds - undisturbed_s; delay > detour_from(undisturbed_s))
      detours.push_back({q.start_s + 0.5 * q.seconds, delay});
  }
  const double span_s = quanta.back().start_s + quanta.back().seconds;
  const std::vector<Period> periods =
      find_periods(detours, span_s, span_s / static_cast<double>(quanta.size()));

  const std::vector<std::string> hosts = peers.gather(world.node.host);
  const std::vector<NoiseFigures> figures = peers.gather(mine);
  const std::vector<Distribution> all_times = gather(peers, distribution_of(times));
  for (std::size_t r = 0; r < hosts.size(); ++r)
    noise.ranks.push_back({.host = hosts[r],
                           .rank = static_cast<int>(r),
                           .figures = figures[r],
                           .delays = above(all_times[r], figures[r].undisturbed_s()),
                           .periods = {}});
  gather_periods(peers, periods, noise.ranks);
  const std::size_t per_block =
      std::max<std::size_t>(1, static_cast<std::size_t>(block_wanted_s * 1e6 / a.quantum_us));
  noise.rank_spread = spread(peers, quanta, per_block);
  noise.block_s = static_cast<double>(per_block) * a.quantum_us * 1e-6;
  join_ranks(noise);
  noise.loop.predicted_slowest_s = expected_maximum(all_times);
  noise.loop.predicted_round_s = noise.loop.predicted_slowest_s + noise.loop.barrier_s;
  noise.tail = fit_tail(noise.all.delays);
  for (const int ranks : scales) noise.at_scale.push_back(noise_at_scale(noise, ranks));
  noise.seconds = seconds_since(start_ns);
  return noise;
}

}  // namespace shardmark
