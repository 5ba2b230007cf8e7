// SPDX-License-Identifier: Apache-2.0
// Energy is read from made-up counters: what is added up, what wraps, and what is said about
// counters that are absent or may not be read.
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/miniapp/energy/made_up_counters.hpp>

namespace shardmark::test::energy_test {
namespace {

class Energy : public ::testing::Test, protected MadeUpCounters {};

TEST_F(Energy, AddsPackagesAndMemoryButNoZoneTwice) {
  put_zone("intel-rapl:0", "package-0", "1000000");
  put_zone("intel-rapl:0:0", "core", "500000");
  put_zone("intel-rapl:0:1", "dram", "200000");
  put_zone("intel-rapl:1", "package-1", "3000000");
  put_zone("intel-rapl:2", "psys", "9000000");
  put_zone("intel-rapl-mmio:0", "package-0", "1000000");
  EnergyMeters m = meters();
  m.begin();
  put_zone("intel-rapl:0", "package-0", "3000000");
  put_zone("intel-rapl:0:0", "core", "2500000");
  put_zone("intel-rapl:0:1", "dram", "700000");
  put_zone("intel-rapl:1", "package-1", "4000000");
  m.sample(true);
  const NodeEnergy node = node_of(m);
  ASSERT_EQ(node.counters.size(), 3U);
  EXPECT_EQ(node.counters[1].name, "dram of package-0");
  EXPECT_EQ(node.counters[1].part, EnergyPart::memory);
  EXPECT_NEAR(*node.joules(), 2 + 0.5 + 1, 1e-9);
  EXPECT_FALSE(node.whole());
}

TEST_F(Energy, GoesOnAfterAWrap) {
  put_zone("intel-rapl:0", "package-0", "9000000");
  EnergyMeters m = meters();
  m.begin();
  put_zone("intel-rapl:0", "package-0", "500000");
  m.sample(true);
  put_zone("intel-rapl:0", "package-0", "700000");
  m.sample(true);
  EXPECT_NEAR(*node_of(m).joules(), 1.7, 1e-9);
}

// What is done between timed steps, as the copies of states for the replay, is not their energy.
TEST_F(Energy, OfPausesIsNotCounted) {
  put_zone("intel-rapl:0", "package-0", "1000000");
  EnergyMeters m = meters();
  m.begin();
  put_zone("intel-rapl:0", "package-0", "2000000");
  m.pause();
  put_zone("intel-rapl:0", "package-0", "7000000");
  m.change_phase(std::nullopt, true);
  put_zone("intel-rapl:0", "package-0", "8000000");
  m.change_phase(EnergyPhase::checkpoint, true);
  m.resume();
  put_zone("intel-rapl:0", "package-0", "8500000");
  m.sample(true);
  const NodeEnergy node = node_of(m);
  EXPECT_NEAR(*node.joules(), 1.5, 1e-9);
  EXPECT_NEAR(node.counters[0].phases.at(EnergyPhase::checkpoint), 1, 1e-9);
  // Each of the two spans may be wrong by an update of 1 ms.
  EnergyFigure figure;
  figure.nodes = {node};
  figure.seconds = 0.01;
  EXPECT_NEAR(figure.error(), 0.2, 1e-9);
  EXPECT_NE(describe(figure).find("1.5 J (± 20 %)"), std::string::npos) << describe(figure);
  EXPECT_NE(describe(figure).find("no joules_per_token"), std::string::npos);
  figure.seconds = 10;
  EXPECT_EQ(describe(figure).find("±"), std::string::npos) << describe(figure);
}

TEST_F(Energy, OfACounterThatFellWithoutAWrapIsDropped) {
  put_zone("intel-rapl:0", "package-0", "9000000");
  std::filesystem::remove(place.path("sys/class/powercap/intel-rapl:0/max_energy_range_uj"));
  EnergyMeters m = meters();
  m.begin();
  put("sys/class/powercap/intel-rapl:0/energy_uj", "500000");
  m.sample(true);
  EXPECT_FALSE(node_of(m).joules());
  EXPECT_TRUE(says(m, "package-0: package-0 fell from 9 J")) << m.missing().back();
}

TEST_F(Energy, WithoutCountersIsSaidAndNotZero) {
  EnergyMeters m = meters();
  m.begin();
  m.sample(true);
  EXPECT_FALSE(node_of(m).joules());
  EXPECT_TRUE(says(m, "no zone intel-rapl"));
  EXPECT_TRUE(says(m, "GPUs: " + no_nvml + " is not there"));
}

TEST_F(Energy, OfACounterThatMayNotBeReadIsSaid) {
  put_zone("intel-rapl:0", "package-0", "1");
  const std::string file = place.path("sys/class/powercap/intel-rapl:0/energy_uj");
  std::filesystem::remove(file);
  std::filesystem::create_directories(file);  // root may read any file, but no folder
  put("sys/class/hwmon/hwmon0/name", "amd_energy");
  put("sys/class/hwmon/hwmon0/energy1_label", "Ecore000");
  put("sys/class/hwmon/hwmon0/energy1_input", "1000000");
  put("sys/class/hwmon/hwmon0/energy2_label", "Esocket0");
  put("sys/class/hwmon/hwmon0/energy2_input", "1000000");
  EnergyMeters m = meters();
  EXPECT_TRUE(says(m, "energy_uj cannot be read ("));
  m.begin();
  put("sys/class/hwmon/hwmon0/energy2_input", "4000000");
  m.sample(true);
  ASSERT_EQ(m.energy().size(), 1U) << "of hwmon, the socket and not its cores";
  EXPECT_NEAR(m.energy()[0].joules, 3, 1e-9);
  put("sys/class/hwmon/hwmon0/energy2_input", "broken");
  m.sample(true);
  EXPECT_TRUE(m.energy().empty());
  EXPECT_TRUE(says(m, "does not contain a number"));
}

TEST_F(Energy, OfAWholeNodeIncludesItsParts) {
  put("sys/cray/pm_counters/energy", "1000 J 1700000000000000 us");
  put("sys/cray/pm_counters/cpu_energy", "400 J 1700000000000000 us");
  put("sys/cray/pm_counters/accel0_energy", "300 J 1700000000000000 us");
  put("sys/cray/pm_counters/power", "500 W 1700000000000000 us");
  EnergyMeters m = meters();
  m.begin();
  put("sys/cray/pm_counters/energy", "1100 J 1700000001000000 us");
  put("sys/cray/pm_counters/cpu_energy", "450 J 1700000001000000 us");
  m.sample(true);
  const NodeEnergy node = node_of(m);
  EXPECT_EQ(node.counters.size(), 3U);
  EXPECT_TRUE(node.whole());
  EXPECT_NEAR(*node.joules(), 100, 1e-9);
}

TEST_F(Energy, OfGpusComesFromNvml) {
  EnergyMeters m = meters(SHARDMARK_TEST_NVML);
  EXPECT_TRUE(says(m, "gpu1: nvmlDeviceGetTotalEnergyConsumption failed with 3"));
  m.begin();
  m.sample(true);
  m.sample(true);
  ASSERT_EQ(m.energy().size(), 1U);
  EXPECT_EQ(m.energy()[0].part, EnergyPart::gpu);
  EXPECT_NEAR(m.energy()[0].joules, 5, 1e-9);
}

TEST_F(Energy, OfTheNodesIsAddedUpOnlyIfAllAreMeasured) {
  const CounterEnergy package{"package-0", "powercap", EnergyPart::processor, 30};
  EnergyFigure figure{{{"a", 2, {package}, {}}, {"b", 2, {package}, {"GPUs: none"}}}, 10, 600};
  EXPECT_NEAR(*figure.joules(), 60, 1e-9);
  const std::string text = describe(figure);
  for (const char* part : {"a  30 J, 15 J per rank: package-0 30 J (powercap)",
                           "in all 60 J, 6 W, 0.1 J per token of a part of each node: processor",
                           "not measured: GPUs: none"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  figure.nodes[1].counters.clear();
  EXPECT_FALSE(figure.joules());
  EXPECT_EQ(describe(figure).find("in all"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::energy_test
