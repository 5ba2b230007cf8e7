// SPDX-License-Identifier: Apache-2.0
// Measures the cost of interpreting the plan. A model with the same plan, event for event, but of a
// few bytes, is run without arithmetic. Its time per event (slots, order, tiny copies and
// collectives) times the number of events of a real step is compared with the time of that step.
//
//     bench_overhead TURNS DECK [KEY=VALUE ...]

#include <ci/bench.d/session.hpp>
#include <ci/bench.d/turns.hpp>

namespace shardmark::bench {
namespace {

class NoArithmetic : public Model {
 public:
  void run(const Program&, const Event&, std::span<const Bound>, const StepValues&) override {}
};

void bench(const Machine& machine, int turns, const std::string& deck,
           std::vector<std::string> sets) {
  DeckSession real(machine, deck, sets);
  const auto heads = real.deck.model.heads;
  for (const std::string& small : {fmt::format("model.hidden={}", 2 * heads),
                                   std::string("model.sequence=2"), std::string("model.vocab=256")})
    sets.push_back(small);
  DeckSession tiny(machine, deck, sets, [](std::unique_ptr<Model>, const MatMul&) {
    return std::make_unique<NoArithmetic>();
  });
  const auto events = static_cast<double>(real.events_per_step());
  const auto tiny_events = static_cast<double>(tiny.events_per_step());
  constexpr int tiny_steps = 200;
  std::vector<double> part, per_event_ns;
  for (int turn = 0; turn < turns; ++turn) {
    const double step = seconds_of([&] { real.step(); });
    const double tiny_step = seconds_of([&] {
                               for (int i = 0; i < tiny_steps; ++i) tiny.step();
                             }) /
                             tiny_steps;
    per_event_ns.push_back(tiny_step / tiny_events * 1e9);
    part.push_back(100 * tiny_step / tiny_events * events / step);
  }
  print_figure(
      fmt::format("interpretation {} stage {} {}", real.deck.name, real.program.stage,
                  to_string(real.program.schedule)),
      spread(part), "%", "< 1 %",
      fmt::format("{} events per step, {:.0f} ns each", events, spread(per_event_ns).median));
}

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_deck_bench(argc, argv, "bench_overhead", bench);
}
