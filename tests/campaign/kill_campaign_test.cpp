// SPDX-License-Identifier: Apache-2.0
// (b) A rank is killed or stopped at any of its calls of MPI, or of its calls on files: the launch
// ends in bounded time, nothing is left running, nothing calls itself VALID that is not complete,
// and what was published stays whole.
#include <csignal>
#include <filesystem>

#include <tests/campaign/campaign.hpp>
#include <tests/support/io_faults.hpp>
#include <tests/support/pattern.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::kill_campaign_test {
namespace {

constexpr int world = 3;

class KillCampaign {
 public:
  explicit KillCampaign(bool on_files) {
    // The back-end `mpi` makes the most calls of MPI.
    place_.deck(2, {{"checkpoint", {{"dir", "ckpt"}, {"every", 1}, {"keep", 2}}},
                    {"run", {{"steps", 2}}},
                    {"comm", {{"timeout_s", 2}, {"backend", on_files ? "auto" : "mpi"}}}});
    EXPECT_EQ(run({.args = place_.run_args(), .ranks = world}).status, 0);
  }

  // How many calls a rank makes if nobody stops it.
  std::int64_t calls_of(int rank, bool on_files) {
    const std::string marker = place_.path("reached");
    const Outcome o = run(launch(rank, 0, 0, on_files));
    EXPECT_EQ(o.status, 0) << o.err;
    const std::int64_t calls = on_files ? made(rank) : std::stoll(read_text(marker));
    std::filesystem::remove(marker);
    return calls;
  }

  // Returns whether the rank came as far as its n-th call.
  bool expect_ends(int rank, std::int64_t nth, int signal, bool on_files) {
    std::filesystem::remove(place_.path("reached"));
    Program program(launch(rank, nth, signal, on_files));
    const Outcome o = program.wait();
    const bool reached =
        on_files ? made(rank) >= nth : std::filesystem::exists(place_.path("reached"));
    SCOPED_TRACE(o.out + o.err);
    EXPECT_FALSE(o.timed_out);
    EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
    // A rank that is stopped in MPI_Finalize leaves a whole result. The others end by themselves,
    // and the status is theirs or that of the stopped rank, which the launcher kills.
    if (contains(o.err, "MPI_Finalize not finished")) {
      EXPECT_TRUE(contains(o.out, "RESULT=VALID"));
    } else {
      EXPECT_EQ(o.status == 0, !reached);
    }
    const Outcome whole = run({.args = {"ckpt", "verify", place_.path("ckpt")}});
    EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
    return reached;
  }

 private:
  Launch launch(int rank, std::int64_t nth, int signal, bool on_files) const {
    const std::string marker = place_.path("reached");
    Launch l{.args = place_.run_args(), .ranks = world, .limit_s = 60};
    if (on_files) {
      IoFault fault{place_.path("ckpt"), signal == 0 ? "none" : "any", nth};
      fault.signal = signal;
      l.environment = {{"LD_PRELOAD", SHARDMARK_TEST_IO_LIBRARY},
                       {io_fault_variable, io_fault_order(fault, rank, marker)}};
    } else {
      l.environment = {{"LD_PRELOAD", SHARDMARK_TEST_STOP_LIBRARY},
                       {"SHARDMARK_PHASE_LIMIT_S", "20"},  // of the start-up, where most calls are
                       {"SHARDMARK_TEST_STOP", std::to_string(rank) + " " + std::to_string(nth) +
                                                   " " + std::to_string(signal) + " " + marker}};
    }
    return l;
  }
  std::int64_t made(int rank) const {
    std::int64_t calls = 0;
    for (const IoCall& c : read_io_log(place_.path("reached"))) calls += c.rank == rank ? 1 : 0;
    return calls;
  }

  const Workplace place_;
};

// comm.timeout_s holds as soon as the deck is read, long before the first step.
TEST(CampaignStop, AtTheFirstCallOnACheckpoint) {
  const Workplace place;
  place.deck(2, {{"checkpoint", {{"dir", "ckpt"}, {"every", 1}}}, {"comm", {{"timeout_s", 2}}}});
  IoFault fault{place.path("ckpt"), "any", 1};
  fault.signal = SIGSTOP;
  Program program(
      {.args = place.run_args(),
       .ranks = 2,
       .environment = {{"LD_PRELOAD", SHARDMARK_TEST_IO_LIBRARY},
                       {io_fault_variable, io_fault_order(fault, 1, place.path("reached"))}},
       .limit_s = 60});
  const Outcome o = program.wait();
  EXPECT_FALSE(o.timed_out);
  EXPECT_EQ(o.status, 5);
  EXPECT_TRUE(contains(o.err, "driver .*not finished after 2 s: rank 1 .*does not answer"))
      << o.err;
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

void at_any_call(const char* name, bool on_files, int signal, std::int64_t short_cases) {
  Campaign campaign(name, short_cases);
  KillCampaign one_rank_ends(on_files);
  std::vector<std::pair<int, std::int64_t>> all;  // rank and call
  for (int rank = 0; rank < world; ++rank)
    for (std::int64_t nth = one_rank_ends.calls_of(rank, on_files); nth > 0; --nth)
      all.emplace_back(rank, nth);
  const auto call_of = [](const std::pair<int, std::int64_t>& one) {
    return "call " + std::to_string(one.second) + " of rank " + std::to_string(one.first);
  };
  campaign.shuffle(all, call_of);
  int reached = 0;
  for (const auto& one : all) {
    if (!campaign.more()) break;
    campaign.run_case(call_of(one), [&] {
      reached += one_rank_ends.expect_ends(one.first, one.second, signal, on_files) ? 1 : 0;
    });
  }
  std::printf("%d of these calls were reached\n", reached);
  EXPECT_GT(reached, 0);
}

TEST(CampaignKill, AtAnyCallOfMpi) {
  at_any_call("kill at MPI", false, SIGKILL, 12);
}
TEST(CampaignKill, AtAnyCallOnFiles) {
  at_any_call("kill at files", true, SIGKILL, 8);
}
TEST(CampaignStop, AtAnyCallOfMpi) {
  at_any_call("stop at MPI", false, SIGSTOP, 3);
}
TEST(CampaignStop, AtAnyCallOnFiles) {
  at_any_call("stop at files", true, SIGSTOP, 2);
}

}  // namespace
}  // namespace shardmark::test::kill_campaign_test
