// SPDX-License-Identifier: Apache-2.0
// Rule: a phase that does not end in time ends the process with the right status and names it; a
// phase that ends, or gives way to the next one, does not. An unwatched call outside phases is one.
// A signal that asks the process to stop runs its handler on the guard's thread, and on no other.
#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <comm/mpi/unwatched_call.hpp>
#include <miniapp/ranks/deadline_guard.hpp>
#include <miniapp/ranks/stop_signals.hpp>

namespace shardmark::test::deadline_guard_test {
namespace {

void wait(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class DeadlineGuardDeath : public ::testing::Test {
 protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(DeadlineGuardDeath, EndsAPhaseThatHangs) {
  EXPECT_EXIT(
      {
        DeadlineGuard::start().begin("MPI_Init", 0.3);
        wait(60);
      },
      testing::ExitedWithCode(5),
      "rank [0-9]+ \\(host .*, pid [0-9]+\\): MPI_Init not finished after 0.3 s");
}

TEST_F(DeadlineGuardDeath, EndsWithTheStatusOfTheRun) {
  EXPECT_EXIT(
      {
        DeadlineGuard& guard = DeadlineGuard::start();
        guard.ends_with(ExitStatus::invalid);
        guard.begin("communicators", 60);
        guard.begin("MPI_Finalize", 0.3);
        wait(60);
      },
      testing::ExitedWithCode(1), "MPI_Finalize not finished");
}

TEST_F(DeadlineGuardDeath, LeavesAPhaseThatEndsAlone) {
  EXPECT_EXIT(
      {
        DeadlineGuard& guard = DeadlineGuard::start();
        { const GuardedPhase phase(guard, "communicators", 0.3); }
        wait(1);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(DeadlineGuardDeath, EndsAnUnwatchedCallOutsidePhases) {
  EXPECT_EXIT(
      {
        DeadlineGuard& guard = DeadlineGuard::start();
        guard.set_timeout(0.3);
        const UnwatchedCall outer("making communicators");
        const UnwatchedCall inner("duplicating communicators");
        wait(60);
      },
      testing::ExitedWithCode(5), "making communicators not finished after 0.3 s");
}

// What ends first is not the phase, and a call that has ended is not guarded.
TEST_F(DeadlineGuardDeath, GivesAnUnwatchedCallTheLimitOfItsPhase) {
  EXPECT_EXIT(
      {
        DeadlineGuard& guard = DeadlineGuard::start();
        guard.set_timeout(0.3);
        { const UnwatchedCall alone("making communicators"); }
        wait(1);
        guard.begin("start-up", 2);
        const UnwatchedCall within("making communicators");
        wait(60);
      },
      testing::ExitedWithCode(5), "start-up not finished after 2 s");
}

bool blocks_stop_signals() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGINT) == 1 && sigismember(&blocked, SIGTERM) == 1 &&
         sigismember(&blocked, SIGUSR1) == 1;
}

TEST_F(DeadlineGuardDeath, AloneReceivesStopSignals) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        DeadlineGuard::start();
        bool blocked = blocks_stop_signals();
        std::thread([&] { blocked = blocked && blocks_stop_signals(); }).join();
        kill(getpid(), SIGUSR1);
        for (int i = 0; i < 200 && signal_received() == StopCause::none; ++i) wait(0.05);
        _exit(blocked && signal_received() == StopCause::sigusr1 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace shardmark::test::deadline_guard_test
