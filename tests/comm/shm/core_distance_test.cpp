// SPDX-License-Identifier: Apache-2.0
// Rules: neighbouring ranks measure a distance between their cores, a rank without a neighbour
// none; a rank that does not come in time keeps no other one waiting, and the next measurement is
// not confused by it.
#include <chrono>
#include <thread>

#include <comm/shm/core_distance.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::core_distance_test {
namespace {

bool has_neighbour() {
  return (world_rank() ^ 1) < world_size();
}

// A rank that shares its core may not get it in time, and then none of both measures anything.
void expect_distances(CoreDistance& cores) {
  double most_s = 0;
  for (int i = 0; i < 20; ++i) {
    mpi_barrier();
    most_s = std::max(most_s, cores.measure_s());
  }
  if (has_neighbour()) {
    EXPECT_GT(most_s, 1e-9) << "light passes 30 cm in that time";
    EXPECT_LT(most_s, 0.05);
  } else {
    EXPECT_EQ(most_s, 0);
  }
}

TEST(CoreDistance, is_measured_between_neighbours) {
  CoreDistance cores(MPI_COMM_WORLD);
  expect_distances(cores);
}

TEST(CoreDistance, of_a_late_neighbour_is_unknown) {
  for (const int late : {0, 1}) {
    CoreDistance cores(MPI_COMM_WORLD);
    mpi_barrier();
    if (world_rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double measured_s = cores.measure_s();
    if (world_rank() < 2) {
      EXPECT_EQ(measured_s, 0);
    }
    expect_distances(cores);
  }
}

}  // namespace
}  // namespace shardmark::test::core_distance_test
