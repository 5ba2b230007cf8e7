// SPDX-License-Identifier: Apache-2.0
// Rule: calibrate --for a deck measures every kernel with which the plan of the deck quantizes what
// it sends, and every one of Newton-Schulz iterations, under the name and types in which the price
// looks it up.
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include <core/plan/work/work.hpp>
#include <miniapp/tools/calibrate/probe.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::probe_deck_test {
namespace {

using Key = std::tuple<std::string, Dtype, Dtype>;

Deck deck_of(bool weights, bool gradients, Dtype model) {
  Deck deck = quantizable_deck();
  PrecisionSpec& p = deck.zero.precision;
  p.model = p.grad_accum = model;
  p.comm = gradients ? Dtype::fp16 : model;
  deck.zero.knobs.quantized_weights = weights;
  deck.zero.knobs.quantized_gradients = gradients;
  deck.machine.ranks_per_node = 2;
  return deck;
}

// The kernels that quantize, restore or add up what was quantized, and those that convert to and
// from fp16 for them, with the elements of each.
std::map<Key, std::set<double>> quantizers_of(const Deck& deck) {
  static const std::set<std::string_view> names{"quantize",    "dequantize",      "quantize_int4",
                                                "reduce_int4", "dequantize_int4", "sum_parts"};
  const Dtype model = deck.zero.precision.model;
  const std::set<Key> conversions{{"convert", Dtype::fp16, model}, {"convert", model, Dtype::fp16}};
  std::map<Key, std::set<double>> found;
  const Program p = program(deck, 4, 1);
  for (const Segment& segment : p.segments)
    for (const Event& e : segment.events)
      for (const Stream& s : work_of(p, e).streams) {
        const Key key{std::string(s.kernel), s.dtype, s.source};
        if (names.contains(s.kernel) || conversions.contains(key)) found[key].insert(s.elems);
      }
  return found;
}

// What `probe` measures on this rank alone.
template<class Measure>
std::map<Key, std::set<double>> measured_by(Measure measure) {
  const auto self = make_communicator(Backend::self, MPI_COMM_SELF, {});
  Peers peers(*self);
  const Node node;
  Watchdog watch(MPI_COMM_SELF, 600, {});
  const World world{MPI_COMM_SELF, node, watch, peers, DeadlineGuard::start()};
  Samples samples;
  CoreDistance cores(MPI_COMM_SELF);
  measure(Probe{.world = world,
                .quick = true,
                .samples = samples,
                .cores = cores,
                .progress = [](const std::string&) {}});
  Machine machine;
  samples.fill(machine);
  std::map<Key, std::set<double>> found;
  for (const StreamTimes& t : machine.device.streams)
    for (const auto& point : t.points) found[{t.kernel, t.dtype, t.source}].insert(point.elems);
  return found;
}

std::map<Key, std::set<double>> measured_for(const Deck& deck) {
  return measured_by([&](const Probe& probe) { probe_quantization(probe, deck); });
}

TEST(ProbeDeck, MeasuresWhatThePlanLists) {
  for (const auto& [weights, gradients, model, kernels] :
       {std::tuple{true, false, Dtype::bf16, 4U}, {false, true, Dtype::fp16, 4U}}) {
    SCOPED_TRACE(weights ? "int8" : "int4");
    const Deck deck = deck_of(weights, gradients, model);
    const auto measured = measured_for(deck);
    const auto listed = quantizers_of(deck);
    EXPECT_GE(listed.size(), kernels);
    for (const auto& [key, elems] : listed) {
      const auto& [kernel, dtype, source] = key;
      SCOPED_TRACE(kernel + " " + std::string(to_string(dtype)) + " from " +
                   std::string(to_string(source)));
      const auto it = measured.find(key);
      ASSERT_NE(it, measured.end());
      EXPECT_GE(it->second.size(), 5U);
      EXPECT_GE(*it->second.rbegin(), *elems.rbegin());
      if (kernel.find("int4") == std::string::npos) continue;
      // Whole rows of the width of the model, as many as four ranks can share.
      for (const double e : it->second) EXPECT_EQ(static_cast<std::int64_t>(e) % (4 * 64), 0);
    }
  }
}

TEST(ProbeDeck, MeasuresNothingForOtherDecks) {
  EXPECT_TRUE(measured_for(deck_of(false, false, Dtype::fp16)).empty());
  Deck two = deck_of(true, true, Dtype::fp16);
  two.zero.stage = 2;
  EXPECT_TRUE(measured_for(two).empty());
}

TEST(ProbeDeck, MeasuresNewtonSchulzIterations) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    SCOPED_TRACE(to_string(muon));
    Deck deck = deepspeed_deck(2);
    deck.zero.optimizer.type = muon;
    deck.zero.micro_batch_size = 1;
    StepSamples steps;
    const auto measured = measured_by([&](const Probe& p) { probe_models(p, &deck, steps); });
    const Program p = program(deck, 2, 0);
    std::set<Key> listed;
    for (const Segment& segment : p.segments)
      for (const Event& e : segment.events)
        if (e.kernel == Kernel::orthogonalize)
          for (const Stream& s : work_of(p, e).streams)
            listed.insert({std::string(s.kernel), s.dtype, s.source});
    EXPECT_GE(listed.size(), 3U);
    for (const Key& key : listed) EXPECT_TRUE(measured.contains(key)) << std::get<0>(key);
  }
}

}  // namespace
}  // namespace shardmark::test::probe_deck_test
