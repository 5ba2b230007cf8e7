// SPDX-License-Identifier: Apache-2.0
// The third memory figure on a GPU: who uses the memory that the driver counts, and when a run is
// INVALID because of memory that nothing accounts for.
#include <gtest/gtest.h>

#include <comm/self/self_communicator.hpp>
#include <miniapp/measure/comparisons.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::device_figure_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

DeviceLooks looks(std::int64_t end_mib, int ranks = 1) {
  return {DeviceUse{500 * mib, ranks}, DeviceUse{900 * mib, ranks},
          DeviceUse{end_mib * mib, ranks}};
}

TEST(DeviceFigure, separates_context_libraries_and_excess) {
  const auto f = device_figure(looks(1930), 1000 * mib);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->context_bytes, 500 * mib);
  EXPECT_EQ(f->libraries_bytes, 400 * mib);
  EXPECT_EQ(f->in_use_bytes, 1930 * mib);
  EXPECT_EQ(f->excess_bytes, 30 * mib);
  EXPECT_EQ(describe(*f, 512 * mib),
            "device in use: 1.885 GiB: 500 MiB before the run (context), 400 MiB of communicators "
            "and libraries; 30 MiB beyond these and the ledger (allowance 512 MiB)");
}

TEST(DeviceFigure, is_never_negative_if_other_programs_end) {
  DeviceLooks l = looks(800);
  l.ready->bytes = 300 * mib;
  const auto f = device_figure(l, 1000 * mib);
  EXPECT_EQ(f->libraries_bytes, 0);
  EXPECT_EQ(f->excess_bytes, 0);
}

TEST(DeviceFigure, is_none_where_the_devices_memory_is_the_hosts) {
  EXPECT_FALSE(device_figure({}, 0));
  EXPECT_FALSE(device_memory_in_use(1)) << "in a build that computes on the host";
}

struct System {
  Result result;
  Observed observed;
};

System compared(const DeviceLooks& device) {
  const Deck deck = gpt2_deck(3);  // its allowance is the most that is the default
  SelfCommunicator self;
  Peers peers(self);
  RunRecord record;
  record.rss_start = record.rss_start_files = 100 * mib, record.rss_peak = 1150 * mib;
  record.device = device;
  LedgerSnapshot ledger;
  ledger.tiers[0].peak_bytes = 1000 * mib, ledger.tiers[1].peak_bytes = 40 * mib;
  ledger.tiers[0].live_bytes = 1000 * mib;
  System s;
  compare_system(deck, record, ledger, peers, s.result, s.observed);
  return s;
}

TEST(DeviceFigure, of_both_tiers_only_the_hosts_is_resident_where_they_are_apart) {
  EXPECT_EQ(compared({}).result.rss_excess, 10 * mib);
  EXPECT_EQ(compared(looks(1930)).result.rss_excess, 1010 * mib);
}

TEST(DeviceFigure, an_excess_over_the_allowance_is_reported_of_an_unshared_device) {
  const auto excess = [](const DeviceLooks& l) { return compared(l).observed.excess; };
  EXPECT_EQ(excess({}), "");
  EXPECT_NE(excess(looks(2413))
                .find("513 MiB of the device beyond the ledger's and the libraries', "
                      "memory.allowance_mib allows 512 MiB"),
            std::string::npos)
      << excess(looks(2413));
  EXPECT_EQ(excess(looks(2412)).find("of the device"), std::string::npos);
  EXPECT_EQ(excess(looks(2413, 2)).find("of the device"), std::string::npos)
      << "another rank's arena is in it";
}

}  // namespace
}  // namespace shardmark::test::device_figure_test
