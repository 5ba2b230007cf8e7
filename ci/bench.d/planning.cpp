// SPDX-License-Identifier: Apache-2.0
// How many events of a plan are written, checked, sized, laid out in an arena and printed per second
// of CPU time, for plans of 10^4 to 10^7 events. Equal figures mean that planning takes linear time.
//
//   bench_planning [EXPONENT]     plans of up to 10^EXPONENT events (7, which takes about 5 GB)
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

#include <fmt/core.h>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/print.hpp>

namespace shardmark {
namespace {

constexpr int world = 3;  // shards need padding

// Stage 3 of the schedule `deepspeed` has the most events and the most buffers.
Deck deep_deck(std::int64_t layers) {
  Deck deck;
  deck.name = "planning";
  deck.model.family = Family::gpt2;
  deck.model.layers = layers;
  deck.model.hidden = 64;
  deck.model.heads = 4;
  deck.model.sequence = 16;
  deck.model.vocab = 100;
  deck.run.schedule = Schedule::deepspeed;
  deck.zero.stage = 3;
  deck.zero.knobs.reduce_bucket_size = 500'000;
  deck.zero.knobs.prefetch_bucket_size = 100'000;
  deck.zero.knobs.max_live_parameters = 1'000'000;
  deck.zero.knobs.max_reuse_distance = 200'000;
  deck.zero.knobs.param_persistence_threshold = 100;
  return deck;
}

Program plan_of(std::int64_t layers) {
  return build_program(deep_deck(layers), {2 * world, 2, 1}, world, 1, Profile{});
}

std::int64_t events_of(const Program& p) {
  std::int64_t events = 0;
  for (const Segment& s : p.segments) events += static_cast<std::int64_t>(s.events.size());
  return events;
}

template<class Part>
double seconds_of(Part part) {
  const std::clock_t begin = std::clock();
  part();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void measure(std::int64_t layers) {
  Program p;
  std::size_t bytes = 0;
  const double write = seconds_of([&] { p = plan_of(layers); });
  const double prove = seconds_of([&] { require_legal(check(p)); });
  const double size = seconds_of([&] {
    if (footprint(p)[Tier::device].peak_bytes == 0) throw std::runtime_error("no memory");
  });
  const double lay_out = seconds_of([&] { bytes += arena_layout(p).offset.size(); });
  const double print = seconds_of([&] { bytes += print_text(p).size(); });
  const auto events = static_cast<double>(events_of(p));
  const double all = write + prove + size + lay_out + print;
  const auto ns = [&](double seconds) { return seconds / events * 1e9; };
  fmt::print(
      "{:>9.0f} events, {:>6} layers: {:.3g} s, {:.3g} events/s; ns per event: build {:.0f}, check "
      "{:.0f}, footprint {:.0f}, arena {:.0f}, print {:.0f} ({} bytes)\n",
      events, layers, all, events / all, ns(write), ns(prove), ns(size), ns(lay_out), ns(print),
      bytes);
  fmt::print(
      "{{\"what\": \"planning, 10^{:.0f} events\", \"value\": {:.0f}, \"unit\": \"events/s\", "
      "\"target\": \"the same at every size\"}}\n",
      std::log10(events), events / all);
}

}  // namespace
}  // namespace shardmark

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 7;
  using namespace shardmark;
  const std::int64_t few = events_of(plan_of(8)), more = events_of(plan_of(16));
  const double per_layer = static_cast<double>(more - few) / 8;
  for (int exponent = 4; exponent <= most; ++exponent)
    measure(std::llround(std::pow(10, exponent) / per_layer));
}
