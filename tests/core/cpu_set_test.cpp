// SPDX-License-Identifier: Apache-2.0
// Sets of cores, also beyond the 1024 of cpu_set_t.
#include <thread>

#include <gtest/gtest.h>

#include <core/cpu_set.hpp>
#include <core/system_pages.hpp>

namespace shardmark::test::cpu_set_test {
namespace {

TEST(CpuSet, HasNoLimitAt1024Cores) {
  CpuSet set({0, 1, 2, 1023, 1024, 5000});
  EXPECT_EQ(set.text(), "0-2,1023-1024,5000");
  EXPECT_EQ(set.count(), 6);
  EXPECT_TRUE(set.contains(5000));
  EXPECT_FALSE(set.contains(4999));
  EXPECT_FALSE(set.contains(100000));
  EXPECT_FALSE(set.contains(-1));
  set.add(CpuSet({7000}));
  EXPECT_TRUE(set.contains(7000));
  EXPECT_EQ(CpuSet::of_words(set.words()), set);
  std::vector<unsigned long> longer = set.words();
  longer.push_back(0);
  EXPECT_EQ(CpuSet::of_words(longer), set) << "words without a core make no difference";
}

TEST(CpuSet, OfThreadIsWhatItWasBoundTo) {
  std::thread([] {
    const CpuSet before = CpuSet::of_thread();
    ASSERT_GT(before.count(), 0);
    const CpuSet one({before.cores().back()});
    ASSERT_TRUE(one.bind_thread());
    EXPECT_EQ(CpuSet::of_thread(), one);
    ASSERT_TRUE(before.bind_thread());
    EXPECT_EQ(CpuSet::of_thread(), before);
  }).join();
  EXPECT_FALSE(CpuSet({1 << 19}).bind_thread()) << "no machine has this core";
}

TEST(CpuSet, OfProcessContainsThatOfTheThread) {
  CpuSet process = CpuSet::of_process();
  const CpuSet before = process;
  process.add(CpuSet::of_thread());
  EXPECT_EQ(process, before);
}

TEST(SystemPages, AreThoseOfTheSystem) {
  EXPECT_GE(system_page_bytes(), 4096);
  EXPECT_EQ(system_page_bytes() & (system_page_bytes() - 1), 0) << "a power of two";
  EXPECT_EQ(huge_page_bytes("/nonexistent"), 2 << 20);
  EXPECT_GE(huge_page_bytes(), system_page_bytes());
}

}  // namespace
}  // namespace shardmark::test::cpu_set_test
