// SPDX-License-Identifier: Apache-2.0
// (a) Any call on a file fails, once or from then on, with any error, on any rank, in whatever the
// program does with files: the launch ends in words and with a status of its own, and what was
// published stays whole.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include <tests/campaign/campaign.hpp>
#include <tests/support/io_faults.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::io_campaign_test {
namespace {

struct Job {
  std::string name;
  Json patch;                     // of the deck
  std::vector<std::string> args;  // {} runs the deck
  int ranks = 2;
};

Json checkpoint(Json section) {
  section.update({{"dir", "ckpt"}, {"every", 1}, {"keep", 2}, {"resume", "latest"}});
  return {{"checkpoint", section}};
}

std::vector<Job> jobs(const Workplace& place) {
  const Json cpu = {{"offload_optimizer", {{"device", "cpu"}}}};
  const std::string swap = place.path("swap");
  const Json nvme = {
      {"stage", 3},
      {"offload_optimizer", {{"device", "nvme"}, {"nvme_path", swap}}},
      {"offload_param", {{"device", "nvme"}, {"nvme_path", swap}, {"buffer_size", 20000}}}};
  Json offloaded = checkpoint(Json::object()), files = checkpoint(Json::object());
  offloaded["deepspeed"]["zero_optimization"] = cpu;
  files["deepspeed"]["zero_optimization"] = nvme;
  Json newest = checkpoint(Json::object());
  newest["checkpoint"]["resume"] = "newest-good";
  const std::string dir = place.path("ckpt"), deck = place.path("deck.json");
  return {{"sync", checkpoint(Json::object()), {}},
          {"shared", checkpoint({{"layout", "shared"}}), {}, 3},
          {"pairs", checkpoint({{"ranks_per_file", 2}}), {}, 3},
          {"async", checkpoint({{"async", true}}), {}},
          {"newest-good", newest, {}},
          {"offloaded", offloaded, {}},
          {"nvme", files, {}},
          {"report and trace", {{"trace", "trace.json"}}, {}},
          {"verify", Json::object(), {"ckpt", "verify", dir}, 0},
          {"info", Json::object(), {"ckpt", "info", dir}, 0},
          {"consolidate",
           Json::object(),
           {"ckpt", "consolidate", dir, "--out", place.path("whole")},
           0},
          {"plan", Json::object(), {"plan", deck, "--ranks", "2"}, 0},
          {"deck check", Json::object(), {"deck", "check", deck, "--ranks", "2"}, 0},
          {"sweep",
           Json::object(),
           {"sweep", deck, "--vary", "run.seed=1,2", "--plan", "--ranks", "2", "--out",
            place.path("sweep")},
           0}};
}

constexpr const char* calls[] = {"open",      "write", "pwrite", "pread", "ftruncate",
                                 "fallocate", "fsync", "close",  "rename"};
constexpr int errors[] = {EIO, ENOSPC, EDQUOT, EACCES, EMFILE, EROFS};

struct Case {
  const Job* job;
  IoFault fault;
  int victim;
};

std::string name_of(const Case& c) {
  return c.job->name + ", " + c.fault.call + " " + std::to_string(c.fault.nth) + " of rank " +
         std::to_string(c.victim) + ": " + std::strerror(c.fault.error) +
         (c.fault.lasting ? ", from then on" : "");
}

class IoCampaign {
 public:
  IoCampaign() {
    std::filesystem::create_directories(place_.path("swap"));
    place_.deck(2, checkpoint(Json::object()));
    EXPECT_EQ(run({.args = place_.run_args({"--set", "run.steps=1"}), .ranks = 2}).status, 0);
    jobs_ = jobs(place_);
  }

  // Every call that a job makes, one more of each kind, with every error, once and lasting.
  std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Job& job : jobs_) {
      std::map<std::pair<std::string, int>, std::int64_t> made;
      const auto [o, log] = start(job, {place_.path(""), "none"}, 0);
      EXPECT_EQ(o.status, 0) << job.name << ": " << o.out << o.err;
      for (const IoCall& c : log) ++made[{c.call, c.rank}];
      for (const char* call : calls)
        for (int victim = 0; victim < std::max(1, job.ranks); ++victim)
          for (std::int64_t nth = 1; nth <= made[{call, victim}] + 1; ++nth)
            for (const int error : errors)
              for (const bool lasting : {false, true})
                all.push_back({&job, {place_.path(""), call, nth, error, lasting}, victim});
    }
    return all;
  }

  // Returns whether the call was made.
  bool run_case(const Case& c) {
    const auto [o, log] = start(*c.job, c.fault, c.victim);
    const auto made = std::count_if(log.begin(), log.end(), [&](const IoCall& call) {
      return call.call == c.fault.call && call.rank == c.victim;
    });
    const bool reached = made >= c.fault.nth;
    EXPECT_FALSE(o.timed_out) << o.out << o.err;
    EXPECT_FALSE(is_crash(o.status)) << o.status << "\n" << o.out << o.err;
    if (!reached) {
      EXPECT_EQ(o.status, 0) << o.out << o.err;
    }
    // `verify` has a line for each dataset, and a sweep writes into its table what failed.
    const std::size_t messages = messages_of(o).size();
    if (o.status != 0 && c.job->name == "verify") {
      EXPECT_GE(messages, 1U) << o.err;
    }
    if (o.status != 0 && c.job->name != "verify" && c.job->name != "sweep") {
      EXPECT_EQ(messages, 1U) << o.err;
    }
    EXPECT_FALSE(names_hdf5(o.err)) << o.err;
    const Outcome whole = run({.args = {"ckpt", "verify", place_.path("ckpt")}});
    EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
    return reached;
  }

 private:
  std::pair<Outcome, std::vector<IoCall>> start(const Job& job, const IoFault& fault, int victim) {
    const std::string latest = read_text(place_.path("ckpt/latest"));
    const int done = std::stoi(latest.substr(std::strlen("step-")));
    Json patch = job.patch;
    patch["comm"]["timeout_s"] = 20;
    // A run that resumes must have a step to do.
    patch["run"]["steps"] = job.args.empty() && patch.contains("checkpoint") ? done + 1 : 1;
    place_.deck(2, patch);
    std::vector<std::string> args = job.args.empty() ? place_.run_args() : job.args;
    if (job.name == "consolidate") args[2] += "/" + latest.substr(0, latest.find('\n'));
    const std::string log = logs_.path("log");
    const Outcome o =
        run({.args = args,
             .ranks = job.ranks,
             .environment = {{"LD_PRELOAD", SHARDMARK_TEST_IO_LIBRARY},
                             {io_fault_variable, io_fault_order(fault, victim, log)}}});
    const std::vector<IoCall> made = read_io_log(log);
    std::filesystem::remove(log);
    return {o, made};
  }

  const Workplace place_, logs_;
  std::vector<Job> jobs_;
};

TEST(CampaignIo, AnyCallFails) {
  Campaign campaign("io", 40);
  IoCampaign files;
  std::vector<Case> all = files.cases();
  campaign.shuffle(all, name_of);
  int reached = 0;
  for (const Case& c : all) {
    if (!campaign.more()) break;
    campaign.run_case(name_of(c), [&] { reached += files.run_case(c) ? 1 : 0; });
  }
  std::printf("%d of these calls were made and failed\n", reached);
  EXPECT_GT(reached, 0);
}

}  // namespace
}  // namespace shardmark::test::io_campaign_test
