// SPDX-License-Identifier: Apache-2.0
// The times of kernels that a listener reports: on a GPU without the launch and the wait, which a
// step hides, and as they are on a host.
#include <gtest/gtest.h>

#include <core/kokkos_shim.hpp>
#include <miniapp/tools/calibrate/kernel_listener.hpp>

namespace shardmark::test::kernel_listener_test {
namespace {

// A function of its own, since a test's body is private, where nvcc accepts no kernel.
void launch(const char* label) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, 1), KOKKOS_LAMBDA(int){});
}

TEST(KernelListener, takes_the_launch_off_what_a_kernel_takes_alone) {
  const LaunchCost launch{.alone_ns = 12'000, .in_row_ns = 3'000};
  EXPECT_EQ(launch.in_row(12'000), 3'000) << "an empty kernel";
  EXPECT_EQ(launch.in_row(112'000), 103'000);
  EXPECT_EQ(launch.in_row(10'000), 3'000) << "no kernel is faster than an empty one";
  EXPECT_EQ(launch.in_row(2'000), 2'000) << "but none gets slower than it was";
}

TEST(KernelListener, adds_nothing_where_a_wait_was_cheaper_than_a_launch) {
  const LaunchCost launch{.alone_ns = 3'000, .in_row_ns = 4'000};
  EXPECT_EQ(launch.in_row(50'000), 50'000);
}

TEST(KernelListener, leaves_times_of_a_host_as_they_are) {
  for (const std::int64_t ns : {0, 1, 5'000}) EXPECT_EQ(LaunchCost().in_row(ns), ns);
}

TEST(KernelListener, hears_a_kernel_by_its_label) {
  KernelListener listener;
  listener.begin();
  launch("shardmark::heard");
  const std::vector<HeardKernel>& kernels = listener.end();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].label, "heard");
  EXPECT_GE(kernels[0].ns, 0);
}

}  // namespace
}  // namespace shardmark::test::kernel_listener_test
