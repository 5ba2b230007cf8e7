// SPDX-License-Identifier: Apache-2.0
// Rules: beside a device, kernels over offloaded states are priced with the host's memory, which
// the ranks of a node share; on a CPU device and host are one memory, and nothing changes.
#include <gtest/gtest.h>

#include <core/plan/price/event_time.hpp>

namespace shardmark::test::host_memory_test {
namespace {

constexpr double bytes = 3e9;

Work update() {
  Work work;
  work.streams.push_back({.kernel = "adamw_update", .elems = bytes / 30, .bytes = bytes});
  return work;
}

Machine gpus() {
  Machine m;
  m.device.memory_bytes_per_s = 2000e9;
  m.node.memory_bytes_per_s = 200e9;
  return m;
}

TEST(HostMemory, IsSharedByTheRanksOfANode) {
  for (const int ranks : {1, 8}) {
    const Machine machine = gpus();
    EventTimes times(machine, ranks);
    const Cost cost = times.compute(update(), Tier::host);
    EXPECT_DOUBLE_EQ(cost[Resource::host_memory], bytes * ranks / (200e9 * host_update_efficiency));
    EXPECT_DOUBLE_EQ(cost.total(), cost[Resource::host_memory]);
    EXPECT_EQ(times.compute(update(), Tier::device)[Resource::host_memory], 0);
  }
}

TEST(HostMemory, IsAssumedWhereTheMachineFileGivesNone) {
  Machine machine = gpus();
  EXPECT_FALSE(assumes_host_memory(machine));
  machine.node.memory_bytes_per_s = 0;
  EXPECT_TRUE(assumes_host_memory(machine));
  EXPECT_DOUBLE_EQ(EventTimes(machine, 1).compute(update(), Tier::host).total(),
                   bytes / (assumed_host_bytes_per_s * host_update_efficiency));
}

TEST(HostMemory, IsTheDevicesOnACpu) {
  Machine machine = gpus();
  machine.device.is_host = true;
  EventTimes times(machine, 2);
  EXPECT_EQ(times.compute(update(), Tier::host), times.compute(update(), Tier::device));
  EXPECT_FALSE(assumes_host_memory(machine));
}

TEST(HostMemory, IsAResourceOfItsOwn) {
  const Machine machine = gpus();
  Speeds faster;
  faster[Resource::host_memory] = 2;
  EXPECT_DOUBLE_EQ(2 * EventTimes(machine, 1, faster).compute(update(), Tier::host).total(),
                   EventTimes(machine, 1).compute(update(), Tier::host).total());
}

}  // namespace
}  // namespace shardmark::test::host_memory_test
