// SPDX-License-Identifier: Apache-2.0
// The main function of tests that run in one process without MPI. Kokkos is initialised for the
// whole run. A run in which no test ran fails (for example after a mistyped filter, or if a file
// was left out of the build).
#include <cstdio>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <tests/support/select_files.hpp>

int main(int argc, char* argv[]) {
  testing::InitGoogleTest(&argc, argv);
  shardmark::test::select_files(argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const int status = RUN_ALL_TESTS();
  if (status == 0 && testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fputs("no test ran: check the filter and the list of files\n", stderr);
    return 1;
  }
  return status;
}
