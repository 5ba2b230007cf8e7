// SPDX-License-Identifier: Apache-2.0
// The main function of tests that run under mpiexec. Rank 0 prints as usual; the other ranks print
// only failures, each line with the rank. The exit status is the highest of all ranks, the same on
// each. A run in which no test ran fails. A rank that leaves a test early ends all ranks if the
// others do not leave it too, because they wait for it in a collective; and so does a rank that
// waits for others itself after a fatal failure, for example in the destructor of a communicator.
// With GTEST_FAIL_FAST the first rank that fails ends all.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <tests/support/patient_mpi.hpp>
#include <tests/support/select_files.hpp>

namespace {

namespace patient = shardmark::test::patient;

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

/// Ends all ranks where one would leave the others behind. Each rank enters a barrier when a test
/// ends, and only a rank with a fatal failure waits for the others there.
class EndTogether : public testing::EmptyTestEventListener {
 public:
  EndTogether() { require(patient::comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup"); }
  ~EndTogether() override {
    require(patient::wait(&all_left_), "MPI_Test");
    require(PMPI_Comm_free(&comm_), "MPI_Comm_free");
  }

  // The test may not end by itself: what it leaves may wait for ranks that wait for this one. A
  // process that ends without MPI_Finalize makes its launcher end the others.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.fatally_failed()) return;
    std::thread([number = tests_ended_.load()] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      if (tests_ended_ != number) return;
      std::fputs("a test failed here 10 s ago and does not end: ending all ranks\n", stderr);
      std::fflush(stderr);
      std::_Exit(1);
    }).detach();
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    ++tests_ended_;
    if (test.result()->Failed() && GTEST_FLAG_GET(fail_fast)) end_all(test, "failed");
    // Ranks that pass do not wait for the slowest one here, but at the end of the next test.
    require(patient::wait(&all_left_), "MPI_Test");
    require(PMPI_Ibarrier(comm_, &all_left_), "MPI_Ibarrier");
    if (test.result()->HasFatalFailure() && !others_follow())
      end_all(test, "failed here, and other ranks are still in it");
  }

 private:
  bool others_follow() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    int done = 0;
    while (done == 0 && std::chrono::steady_clock::now() < deadline)
      require(PMPI_Test(&all_left_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }
  static void end_all(const testing::TestInfo& test, const char* why) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s.%s %s: ending all ranks\n", test.test_suite_name(), test.name(), why);
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  static inline std::atomic<int> tests_ended_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request all_left_ = MPI_REQUEST_NULL;
};

int run_all(int rank) {
  testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  if (rank != 0) {
    testing::TestEventListeners& listeners = unit.listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter(rank));  // GoogleTest owns the printer from here on
  }
  auto* const together = new EndTogether;
  unit.listeners().Append(together);
  const int status = RUN_ALL_TESTS();
  delete unit.listeners().Release(together);  // before MPI_Finalize
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
