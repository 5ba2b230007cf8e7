// SPDX-License-Identifier: Apache-2.0
// Clocks that agree pass, and a clock that runs at another speed is named.
#include <gtest/gtest.h>

#include <miniapp/measure/clock_readings.hpp>

namespace shardmark::test::clock_readings_test {
namespace {

constexpr std::int64_t second = 1'000'000'000;

// Ten seconds of warm-up and a hundred of timed steps, 3 ticks per ns; each clock has its own zero.
ClockSpans spans() {
  const auto at = [](std::int64_t ns) {
    return ClockReadings{7 * second + ns, 1'700'000'000 * second + ns, 9 * second + ns, 5 + 3 * ns};
  };
  return {at(0), at(10 * second), at(110 * second)};
}

TEST(Clocks, that_agree_pass) {
  EXPECT_EQ(clock_disagreement(spans(), {100 * second, 100 * second}), "");
}

TEST(Clocks, of_another_speed_are_named) {
  ClockSpans slow = spans();
  slow.end.monotonic -= 99 * second;
  EXPECT_NE(clock_disagreement(slow, {}).find(
                "1.000 s by the monotonic clock and 100.000 s by the wall clock"),
            std::string::npos);
  ClockSpans kernel = spans();
  kernel.end.kernel += second;
  EXPECT_NE(clock_disagreement(kernel, {}).find("101.000 s by the kernel's own clock"),
            std::string::npos);
  ClockSpans ticks = spans();
  ticks.end.ticks += 3 * second;
  EXPECT_NE(clock_disagreement(ticks, {}).find("101.000 s by the processor's counter"),
            std::string::npos);
  EXPECT_NE(clock_disagreement(spans(), {100 * second, 102 * second}).find("102.000 s on rank 1"),
            std::string::npos);
}

// Half a percent of a hundred seconds, and the time that reading the clocks may take.
TEST(Clocks, may_differ_a_little) {
  ClockSpans close = spans();
  close.end.wall += second / 2 - 1;
  EXPECT_EQ(clock_disagreement(close, {}), "");
  close.end.wall += 2 * second / 100;
  EXPECT_NE(clock_disagreement(close, {}), "");
  ClockSpans shorter = spans();
  shorter.end = shorter.begin;
  shorter.end.wall += 4'000'000;
  EXPECT_EQ(clock_disagreement(shorter, {}), "");
}

}  // namespace
}  // namespace shardmark::test::clock_readings_test
