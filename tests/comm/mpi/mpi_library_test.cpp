// SPDX-License-Identifier: Apache-2.0
// The names of MPI libraries as reports print them.
#include <string>

#include <gtest/gtest.h>

#include <comm/mpi/mpi_library.hpp>

namespace shardmark::test::mpi_library_test {
namespace {

std::string name_of(const std::string& text) {
  return mpi_library_name(text.data(), static_cast<int>(text.size()));
}

TEST(MpiLibrary, IsNamedByItsFirstLineWithoutBuilderAndNul) {
  EXPECT_EQ(name_of("MPICH Version:\t4.0.2\nMPICH Release date:\tx\n"), "MPICH Version: 4.0.2");
  EXPECT_EQ(name_of(std::string("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4\0", 54)),
            "Open MPI v4.1.4");
  EXPECT_EQ(name_of(std::string("Open MPI v5\0", 12)), "Open MPI v5");
  EXPECT_EQ(name_of("Intel(R) MPI Library 2021.18 for Linux* OS\n"),
            "Intel(R) MPI Library 2021.18 for Linux* OS");
  EXPECT_EQ(name_of(""), "");
  EXPECT_EQ(mpi_library().find('\0'), std::string::npos);
  EXPECT_FALSE(mpi_library().empty());
}

TEST(MpiLibrary, OfMpichReadsItsVariables) {
  for (const char* name : {"MPICH Version: 4.0.2", "CRAY MPICH version 8.1.29 (ANL base 3.4a2)",
                           "Intel(R) MPI Library 2021.18 for Linux* OS", "MVAPICH Version: 3.0"})
    EXPECT_TRUE(is_of_mpich(name)) << name;
  EXPECT_FALSE(is_of_mpich("Open MPI v4.1.4"));
}

}  // namespace
}  // namespace shardmark::test::mpi_library_test
