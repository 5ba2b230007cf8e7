// SPDX-License-Identifier: Apache-2.0
// Joules are divided among phases only where the counter is updated often enough for phases of that
// length. The clock and the counters are made up. Elsewhere there is no figure and a reason.
#include <utility>

#include <gtest/gtest.h>

#include <tests/miniapp/energy/made_up_counters.hpp>

namespace shardmark::test::phases_test {
namespace {

constexpr auto forward = EnergyPhase::forward, backward = EnergyPhase::backward,
               optimizer = EnergyPhase::optimizer, checkpoint = EnergyPhase::checkpoint;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class EnergyByPhase : public ::testing::Test, protected MadeUpCounters {
 protected:
  PhaseMeter::Clock clock() {
    return [this] { return now_ns_ += reading_ns_ + std::exchange(once_ns_, 0); };
  }
  // A counter that is updated every ms, as the package has it, and reads `microjoules`.
  void count(const std::string& microjoules) const {
    put_zone("intel-rapl:0", "package-0", microjoules);
  }
  void pass_ms(double ms) { now_ns_ += static_cast<std::int64_t>(ms * 1e6); }
  // One step with phases of these lengths, which leaves the counters alone.
  void warm_up(PhaseMeter& p, double forward_ms, double backward_ms, double optimizer_ms) {
    p.step();
    p.enter(forward), pass_ms(forward_ms);
    p.enter(backward), pass_ms(backward_ms);
    p.enter(optimizer), pass_ms(optimizer_ms);
    p.enter(std::nullopt);
  }
  static void begin(EnergyMeters& m, PhaseMeter& p) {
    p.begin();
    m.begin();
  }
  static EnergyFigure figure_of(const EnergyMeters& m, const PhaseMeter& p) {
    NodeEnergy node = node_of(m);
    node.phases = p.readings();
    return {{node}, 10, 600};
  }

  std::int64_t now_ns_ = 0, reading_ns_ = 0;
  std::int64_t once_ns_ = 0;  // by which only the next reading is later
};

TEST_F(EnergyByPhase, IsWhatTheCountersGrowInEachPhaseAcrossAWrap) {
  count("7000000");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  warm_up(p, 100, 200, 50);
  begin(m, p);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    p.enter(forward), pass_ms(100), count(micro_batch == 0 ? "8000000" : "1000000");
    p.enter(backward), pass_ms(200), count(micro_batch == 0 ? "0" : "4000000");
  }
  p.enter(optimizer), pass_ms(50), count("4500000");
  p.enter(std::nullopt), pass_ms(30), count("6500000");
  m.sample(true);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_NEAR(f.phase(forward)->joules, 1 + 1, 1e-9);
  EXPECT_NEAR(f.phase(backward)->joules, 2 + 3, 1e-9) << "the count started again in the first";
  EXPECT_NEAR(f.phase(optimizer)->joules, 0.5, 1e-9);
  EXPECT_FALSE(f.phase(checkpoint)) << "there was none";
  EXPECT_NEAR(*f.joules(), 9.5, 1e-9) << "what is used between steps belongs to no phase";
  const PhaseSpans& spans = p.readings().spans;
  EXPECT_EQ(spans[forward].count, 2);
  EXPECT_NEAR(spans[backward].seconds, 0.4, 1e-9);
  EXPECT_TRUE(f.unresolved().empty());
  EXPECT_EQ(p.readings().ends, 6);
}

TEST_F(EnergyByPhase, HasTheErrorOfOneUpdateAtTheHighestPower) {
  const double unit = 1.0 / (1 << 14);
  CounterEnergy c{"package-0", "powercap", EnergyPart::processor, 50, {1e-3, unit}, {}};
  c.phases[forward] = 10;   // 100 W in 5 times 20 ms
  c.phases[backward] = 40;  // 400 W in 100 ms
  PhaseSpans spans{};
  spans[forward] = {5, 0.1};
  spans[backward] = {1, 0.1};
  EXPECT_NEAR(*c.phase_error(forward, spans), (0.001 * 400 + unit) / 2, 1e-12);
  EXPECT_NEAR(*c.phase_error(backward, spans), (0.001 * 400 + unit) / 40, 1e-12);
  EXPECT_FALSE(c.phase_joules(forward, spans)) << "it may be wrong by 20 %";
  EXPECT_EQ(c.phase_joules(backward, spans), 40);
  EXPECT_FALSE(c.phase_error(optimizer, spans));
}

TEST_F(EnergyByPhase, OfPhasesThatAreTooShortIsSaidAndTheCounterIsNotRead) {
  count("1000000");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  warm_up(p, 9, 9.9, 4);
  begin(m, p);
  count("no number");  // a reading would drop the counter
  p.enter(forward), pass_ms(9);
  p.enter(backward), pass_ms(9.9);
  p.enter(std::nullopt);
  count("3000000");
  m.sample(true);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_NEAR(*f.joules(), 2, 1e-9);
  EXPECT_FALSE(f.phase(forward));
  ASSERT_EQ(f.unresolved().size(), 2U) << "there was no optimizer";
  EXPECT_EQ(f.unresolved()[0],
            "no joules of forward by powercap: phases of 9 ms are shorter than 10 intervals of the "
            "counter, of 1 ms each");
  EXPECT_EQ(p.readings().ends, 0);
  EXPECT_FALSE(contains(describe(f), "by phase:")) << describe(f);
  EXPECT_TRUE(contains(describe(f), "no joules of backward by powercap")) << describe(f);
}

TEST_F(EnergyByPhase, IsGivenForTheLongPhasesAlone) {
  count("0");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  warm_up(p, 100, 100, 5);
  begin(m, p);
  p.enter(forward), pass_ms(100), count("1000000");
  p.enter(backward), pass_ms(100), count("2000000");
  p.enter(optimizer), pass_ms(5), count("2050000");
  p.enter(std::nullopt);
  m.sample(true);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_NEAR(f.phase(backward)->joules, 1, 1e-9);
  EXPECT_FALSE(f.phase(optimizer));
  const std::string text = describe(f);
  EXPECT_TRUE(contains(text, "  powercap by phase: forward 1 J (± 1 %), backward 1 J (± 1 %)\n"))
      << text;
  EXPECT_TRUE(contains(text, "no joules of optimizer by powercap: phases of 5 ms")) << text;
}

TEST_F(EnergyByPhase, IsNotMadeUpForACounterThatStandsStill) {
  count("1000000");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  warm_up(p, 100, 100, 100);
  begin(m, p);
  p.enter(forward), pass_ms(100);
  p.enter(std::nullopt);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_FALSE(f.phase(forward));
  EXPECT_EQ(f.unresolved().at(0),
            "no joules of forward by powercap: 0 J in 1 phase are too little for the counter");
}

TEST_F(EnergyByPhase, NeedsAWarmUpStepExceptForCheckpoints) {
  count("0");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  begin(m, p);
  p.enter(forward), pass_ms(100), count("1000000");
  p.enter(std::nullopt);
  p.enter(checkpoint), pass_ms(500), count("4000000");
  p.enter(std::nullopt);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_FALSE(f.phase(forward));
  EXPECT_NEAR(f.phase(checkpoint)->joules, 3, 1e-9);
  ASSERT_EQ(f.unresolved().size(), 1U);
  EXPECT_TRUE(contains(f.unresolved()[0], "no joules by phase: no warm-up step"))
      << f.unresolved()[0];
}

TEST_F(EnergyByPhase, LearnsFromTheLastWarmUpStep) {
  count("0");
  EnergyMeters m = meters();
  PhaseMeter p(m, "", clock());
  warm_up(p, 1000, 1000, 1000);  // memory is touched for the first time
  warm_up(p, 5, 5, 5);
  begin(m, p);
  p.enter(forward), pass_ms(50), count("1000000");
  p.enter(std::nullopt);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_FALSE(f.phase(forward));
  EXPECT_TRUE(contains(f.unresolved().at(0), "in the last warm-up step, phases were too short"));
}

TEST_F(EnergyByPhase, IsNotTakenWhereReadingCostsMoreThanAHundredthOfAStep) {
  for (const std::int64_t reading_ns : {500'000, 2'000'000}) {
    count("0");
    EnergyMeters m = meters();
    now_ns_ = 0, reading_ns_ = 0;
    PhaseMeter p(m, "", clock());
    warm_up(p, 100, 100, 100);
    reading_ns_ = reading_ns;
    once_ns_ = 100'000'000;
    p.begin();
    EXPECT_EQ(p.readings().refused,
              reading_ns == 500'000
                  ? ""
                  : "readings at the ends of phases would take 8 ms per step, more than 1 % of it");
  }
}

TEST_F(EnergyByPhase, DependsOnTheSource) {
  count("0");
  put("sys/cray/pm_counters/raw_scan_hz", "20");
  put("sys/cray/pm_counters/cpu_energy", "1000 J 1700000000000000 us");
  EnergyMeters m = meters(SHARDMARK_TEST_NVML);
  for (const CounterEnergy& c : m.energy())
    EXPECT_EQ(c.steps.update_s, c.source == "powercap" ? 1e-3
                                : c.source == "nvml"   ? 0.1
                                                       : 0.05)
        << c.source;
  PhaseMeter p(m, "", clock());
  warm_up(p, 600, 100, 100);
  begin(m, p);
  p.enter(forward), pass_ms(600), count("3000000");
  put("sys/cray/pm_counters/cpu_energy", "1060 J 1700000000600000 us");
  p.enter(std::nullopt);
  const EnergyFigure f = figure_of(m, p);
  EXPECT_NEAR(f.phase(forward, "powercap")->joules, 3, 1e-9);
  EXPECT_NEAR(f.phase(forward, "pm_counters")->joules, 60, 1e-9);
  EXPECT_FALSE(f.phase(forward, "nvml"));
  EXPECT_FALSE(f.phase(forward)) << "the sum would lack the GPUs";
}

TEST_F(EnergyByPhase, OfTheNodesIsAddedUpOnlyIfAllAreMeasured) {
  CounterEnergy c{"package-0", "powercap", EnergyPart::processor, 50, {1e-3, 0}, {}};
  c.phases[forward] = 10;
  NodeEnergy a{"a", 2, {c}, {}}, b = a;
  a.phases.spans[forward] = b.phases.spans[forward] = {1, 0.1};
  EnergyFigure f{{a, b}, 10, 600};
  EXPECT_NEAR(f.phase(forward)->joules, 20, 1e-9);
  EXPECT_NEAR(f.phase(forward)->error, 0.01, 1e-9);
  f.nodes[1].phases.spans[forward] = {100, 0.1};
  EXPECT_FALSE(f.phase(forward));
  EXPECT_EQ(f.unresolved().size(), 1U);
}

TEST_F(EnergyByPhase, IsRefusedForTheReasonGiven) {
  count("0");
  EnergyMeters m = meters();
  PhaseMeter p(m, "the device is ahead", clock());
  warm_up(p, 100, 100, 100);
  begin(m, p);
  p.enter(forward), pass_ms(100), count("1000000");
  p.enter(std::nullopt);
  EXPECT_FALSE(figure_of(m, p).phase(forward));
  EXPECT_EQ(figure_of(m, p).unresolved().at(0), "no joules by phase: the device is ahead");
}

}  // namespace
}  // namespace shardmark::test::phases_test
