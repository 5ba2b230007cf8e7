// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a run goes on from: never silently another one than `latest` names.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::resume_command_test {
namespace {

class Resume : public ::testing::Test {
 protected:
  Resume() {
    place_.deck(2, {{"checkpoint", {{"dir", "ckpt"}, {"every", 1}, {"resume", "latest"}}}});
    const Outcome o = train(3, "latest");
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.out.find("a fresh start"), std::string::npos);
  }
  Outcome train(int steps, const std::string& resume, int ranks = 2) const {
    return run({.args = place_.run_args({"--set", "run.steps=" + std::to_string(steps), "--set",
                                         "checkpoint.resume=" + resume}),
                .ranks = ranks});
  }
  std::string file(const std::string& name) const { return place_.path("ckpt/" + name); }
  void damage(const std::string& name) const {
    std::fstream f(file(name), std::ios::binary | std::ios::in | std::ios::out);
    f.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file(name)) / 2));
    f.write("\x5a\xa5\x5a", 3);
  }
  const Workplace place_;
};

TEST_F(Resume, ALatestThatIsGoneOrDamagedIsAnError) {
  const auto refused = [&](const std::vector<std::string>& parts) {
    const Outcome o = train(4, "latest");
    EXPECT_EQ(o.status, 4) << o.out << o.err;
    EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
    for (const std::string& part : parts)
      EXPECT_NE(o.err.find(part), std::string::npos) << "no '" << part << "' in: " << o.err;
    EXPECT_EQ(o.out.find("tokens/s"), std::string::npos) << o.out;
  };
  damage("step-00000003/rank-00001.h5");
  refused({file("step-00000003/rank-00001.h5"), "dataset"});
  std::filesystem::remove(file("step-00000003/manifest.json"));
  refused({file("latest"), "names step-00000003", "newest-good"});
  std::filesystem::remove_all(file("step-00000003"));
  refused({file("latest"), "names step-00000003", "it is not there"});
}

TEST_F(Resume, NewestGoodStepsBackAndSaysSo) {
  damage("step-00000003/rank-00001.h5");
  for (const int ranks : {3, 2}) {  // another rank count verifies all parts too
    const Outcome o =
        run({.args = place_.run_args({"--set", "run.steps=3", "--set", "checkpoint.every=0",
                                      "--set", "checkpoint.resume=newest-good"}),
             .ranks = ranks});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_NE(o.out.find("step-00000003 is not good"), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("goes on from " + file("step-00000002") + " after step 2"),
              std::string::npos)
        << o.out;
  }
  Outcome o = train(4, "newest-good");  // writes steps 3 and 4 again
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  o = run({.args = {"ckpt", "verify", file("step-00000003")}});
  EXPECT_EQ(o.status, 0) << o.err;
  // The pointer leads out of the folder; the remains of a checkpoint are in the way.
  std::ofstream(file("latest")) << "../elsewhere\n";
  std::filesystem::remove(file("step-00000004/manifest.json"));
  o = train(4, "newest-good");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("goes on from " + file("step-00000003")), std::string::npos) << o.out;
  o = train(5, "latest");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

TEST_F(Resume, NothingGoodIsAnErrorAndNothingAtAllAFreshStart) {
  for (const char* name : {"step-00000001", "step-00000002", "step-00000003"})
    damage(std::string(name) + "/rank-00000.h5");
  Outcome o = train(4, "newest-good");
  EXPECT_EQ(o.status, 4) << o.out;
  EXPECT_NE(o.err.find("no other checkpoint is there"), std::string::npos) << o.err;
  EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
  std::filesystem::remove_all(place_.path("ckpt"));
  o = train(1, "newest-good");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("a fresh start"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::resume_command_test
