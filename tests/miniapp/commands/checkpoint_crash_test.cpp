// SPDX-License-Identifier: Apache-2.0
// Rule: a published checkpoint is never lost, whichever process is killed at any moment, and
// wherever the disk becomes full. The checkpoint that remains verifies, and the next run resumes
// from it and ends VALID.
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::checkpoint_crash_test {
namespace {

using std::chrono::milliseconds;

Json checkpointed(const std::string& dir, int keep) {
  return {{"checkpoint", {{"dir", dir}, {"every", 1}, {"keep", keep}, {"resume", "latest"}}}};
}

// The step of the latest checkpoint; 0 if there is none.
int steps_done(const std::string& dir) {
  const std::string prefix = "step-";
  std::ifstream file(dir + "/latest");
  std::string name;
  std::getline(file, name);
  return name.starts_with(prefix) ? std::stoi(name.substr(prefix.size())) : 0;
}

void expect_whole(const std::string& dir) {
  const Outcome o = run({.args = {"ckpt", "verify", dir}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

// Resumes and runs two steps; the step of the checkpoint never decreases.
void expect_goes_on(const Workplace& place, const std::string& dir) {
  const int done = steps_done(dir);
  const Outcome o =
      run({.args = place.run_args({"--set", "run.steps=" + std::to_string(done + 2)}), .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(steps_done(dir), done + 2);
  expect_whole(dir);
}

void kill_at_random_moments(int times) {
  const Workplace place;
  const std::string dir = place.path("ckpt");
  place.deck(3, checkpointed("ckpt", 2));
  std::mt19937 random(20);
  int before = 0;
  for (int i = 0; i < times; ++i) {
    SCOPED_TRACE("kill " + std::to_string(i));
    {
      Program program({.args = place.run_args({"--set", "run.steps=1000000"}), .ranks = 2});
      ASSERT_TRUE(program.wait_for_output("tokens/s", 60)) << program.wait().err;
      std::this_thread::sleep_for(milliseconds(random() % 500));
      const auto ranks = program.ranks();
      switch (i % 3) {
        case 0: ::kill(ranks[random() % ranks.size()].pid, SIGKILL); break;
        case 1:
          for (const Found& rank : ranks) ::kill(rank.pid, SIGKILL);
          break;
        default: ::kill(program.pid(), SIGKILL);
      }
      program.wait();
      ASSERT_TRUE(program.wait_until_gone(gone_limit_s));
    }
    const int done = steps_done(dir);
    EXPECT_GE(done, before);
    before = done;
    if (done > 0) expect_whole(dir);
  }
  EXPECT_GT(before, 0);
  std::printf("%d kills, %d steps done\n", times, before);
  expect_goes_on(place, dir);
}

TEST(CheckpointCrash, AFewKills) {
  kill_at_random_moments(9);
}
TEST(CheckpointCrashFull, TwoHundredKills) {
  kill_at_random_moments(200);
}

/// A small file system in memory, unmounted at the end.
class SmallDisk {
 public:
  SmallDisk(std::string path, long bytes) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, size(bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) (void)::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  bool change(unsigned long flags, long bytes) const {
    return ::mount("none", path_.c_str(), "tmpfs", MS_REMOUNT | flags, size(bytes).c_str()) == 0;
  }
  long used_bytes() const {
    struct statvfs s {};
    if (::statvfs(path_.c_str(), &s) != 0) return -1;
    return static_cast<long>((s.f_blocks - s.f_bfree) * s.f_frsize);
  }

 private:
  static std::string size(long bytes) { return "size=" + std::to_string(bytes); }
  std::string path_;
  bool mounted_ = false;
};

constexpr long mib = 1 << 20;

TEST(CheckpointCrash, WhereverTheDiskIsFullTheLastGoodOneStays) {
  for (const char* layout : {"file_per_rank", "shared"}) {
    const Workplace place;
    const std::string dir = place.path("disk/ckpt");
    const SmallDisk disk(place.path("disk"), 64 * mib);
    if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
    Json patch = checkpointed("disk/ckpt", 1);
    patch["checkpoint"]["layout"] = layout;
    patch["checkpoint"]["alignment_bytes"] = 4096;
    place.deck(1, patch);
    expect_goes_on(place, dir);
    int full = 0;
    for (long room = 0; room < mib; room += 180 * 1024) {
      SCOPED_TRACE(std::string(layout) + ", room " + std::to_string(room));
      const int done = steps_done(dir);
      ASSERT_TRUE(disk.change(0, disk.used_bytes() + room));
      const auto args = place.run_args({"--set", "run.steps=" + std::to_string(done + 1)});
      const Outcome o = run({.args = args, .ranks = 2});
      if (o.status == 4) {
        ++full;
        EXPECT_NE(o.err.find("disk/ckpt"), std::string::npos) << o.err;
        EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
        EXPECT_EQ(steps_done(dir), done);
      } else {
        EXPECT_EQ(o.status, 0) << o.err;
        EXPECT_EQ(steps_done(dir), done + 1);
      }
      expect_whole(dir);
      ASSERT_TRUE(disk.change(0, 64 * mib));
    }
    EXPECT_GT(full, 1);
    expect_goes_on(place, dir);
  }
}

TEST(CheckpointCrash, AFolderThatCannotBeWrittenIsRefusedButRead) {
  const Workplace place;
  const std::string dir = place.path("disk/ckpt");
  const SmallDisk disk(place.path("disk"), 64 * mib);
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small disk";
  place.deck(2, checkpointed("disk/ckpt", 1));
  expect_goes_on(place, dir);
  ASSERT_TRUE(disk.change(MS_RDONLY, 64 * mib));
  Outcome o = run({.args = place.run_args({"--set", "run.steps=4"}), .ranks = 2});
  EXPECT_EQ(o.status, 4);
  EXPECT_NE(o.err.find("Read-only file system"), std::string::npos) << o.err;
  o = run({.args = place.run_args({"--set", "run.steps=4", "--set", "checkpoint.every=0"}),
           .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST(CheckpointCrash, ASecondRunOnTheSameFolderIsRefused) {
  const Workplace place;
  place.deck(0, checkpointed("ckpt", 2));
  Program first({.args = place.run_args({"--set", "run.steps=1000000"}), .ranks = 2});
  ASSERT_TRUE(first.wait_for_output("tokens/s", 60));
  const Outcome o =
      run({.args = {"run", place.path("deck.json"), "--out", place.path("other")}, .ranks = 2});
  EXPECT_EQ(o.status, 4);
  EXPECT_NE(o.err.find("another run writes here"), std::string::npos) << o.err;
}

TEST(CheckpointCrash, ADamagedOneIsNeverTrainedFrom) {
  const Workplace place;
  const std::string dir = place.path("ckpt");
  place.deck(3, checkpointed("ckpt", 0));
  expect_goes_on(place, dir);
  const std::string file = dir + "/step-00000002/rank-00001.h5";
  const auto bytes = std::filesystem::file_size(file);
  {
    std::fstream damaged(file, std::ios::binary | std::ios::in | std::ios::out);
    damaged.seekp(static_cast<std::streamoff>(bytes / 2));
    damaged.put('\x5a');
    damaged.put('\xa5');
  }
  Outcome o = run({.args = place.run_args({"--set", "run.steps=4"}), .ranks = 2});
  EXPECT_EQ(o.status, 4);
  EXPECT_NE(o.err.find(file + ": dataset "), std::string::npos) << o.err;
  EXPECT_EQ(o.out.find("tokens/s"), std::string::npos) << o.out;  // nothing was trained
  o = run({.args = {"ckpt", "verify", dir}});
  EXPECT_EQ(o.status, 4);
  EXPECT_NE(o.err.find(file + ": dataset "), std::string::npos) << o.err;
  o = run(
      {.args = place.run_args({"--set", "run.steps=4", "--set", "checkpoint.resume=step-00000001"}),
       .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.err;  // the one before
  expect_whole(dir);
}

}  // namespace
}  // namespace shardmark::test::checkpoint_crash_test
