// SPDX-License-Identifier: Apache-2.0
// The main function of tests that run under mpiexec. Rank 0 prints as usual; the other ranks print
// only failures, each line with the rank. The exit status is the highest of all ranks, the same on
// each. A run in which no test ran fails. A test that leaves its ranks in different collectives
// hangs until CTest's timeout ends it. With GTEST_FAIL_FAST the first rank that fails ends all,
// because the others would wait for it in the next test.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <tests/support/select_files.hpp>

namespace {

void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::fprintf(stderr, "mpi_main: %s failed with code %d\n", call, code);
  std::abort();
}

/// Prints failures and skips only, with "rank r: " before each line.
class RankPrinter : public testing::EmptyTestEventListener {
 public:
  explicit RankPrinter(int rank) : prefix_("rank " + std::to_string(rank) + ": ") {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* const file = result.file_name() != nullptr ? result.file_name() : "unknown file";
    print(std::string(file) + ":" + std::to_string(result.line_number()) + ": Failure\n" +
          result.message());
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      print(std::string("FAILED ") + test.test_suite_name() + "." + test.name());
  }

 private:
  void print(const std::string& text) const {
    std::istringstream lines(text);
    std::string out;
    for (std::string line; std::getline(lines, line);) out += prefix_ + line + "\n";
    std::fputs(out.c_str(), stderr);
    std::fflush(stderr);
  }

  std::string prefix_;
};

/// Ends all ranks after the first test that fails on this one.
class AbortAfterFailure : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) MPI_Abort(MPI_COMM_WORLD, 1);
  }
};

int run_all(int rank) {
  testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  if (rank != 0) {
    testing::TestEventListeners& listeners = unit.listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter(rank));  // GoogleTest owns the printer from here on
  }
  if (GTEST_FLAG_GET(fail_fast)) unit.listeners().Append(new AbortAfterFailure);
  const int status = RUN_ALL_TESTS();
  if (status == 0 && unit.test_to_run_count() == 0) {
    std::fprintf(stderr, "rank %d: no test ran: check the filter and the list of files\n", rank);
    return 1;
  }
  return status;
}

}  // namespace

int main(int argc, char* argv[]) {
  require(MPI_Init(&argc, &argv), "MPI_Init");
  // As in the program: MPICH 5 reports an error for a message that nobody received, and a test of
  // lost ranks leaves such messages.
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF})
    require(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  require(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  testing::InitGoogleTest(&argc, argv);
  shardmark::test::select_files(argc, argv);
  int worst = 1;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    const int mine = run_all(rank);
    require(MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  if (rank == 0 && worst != 0) std::fputs("FAILED on at least one rank\n", stderr);
  require(MPI_Finalize(), "MPI_Finalize");
  return worst;
}
