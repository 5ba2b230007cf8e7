// SPDX-License-Identifier: Apache-2.0
// Offload for users: a configuration from a tutorial runs; a model whose states do not fit on the
// device trains; a run on a host that is too small is refused with the figures before anything is
// allocated, also under the limit of a control group.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::offload_command_test {
namespace {

// A configuration from tutorials and issues, with only a batch size added.
constexpr const char* common = R"({"train_batch_size": 2, "zero_optimization": {"stage": 2,
  "offload_optimizer": {"device": "cpu", "pin_memory": true}, "allgather_partitions": true,
  "allgather_bucket_size": 2e8, "overlap_comm": true, "reduce_scatter": true,
  "reduce_bucket_size": 2e8, "contiguous_gradients": true}})";

Json offloaded(int stage) {
  Json zero = {{"offload_optimizer", {{"device", "cpu"}}}};
  if (stage == 3) zero["offload_param"] = {{"device", "cpu"}};
  return {{"deepspeed", {{"zero_optimization", zero}}}};
}

TEST(Offload, ACommonConfigurationRunsAsItIs) {
  const Workplace place;
  Json deck =
      Json::parse(read_text(place.deck(2, Json::parse(R"({"memory": {"device_gib": 4}})"))));
  deck["deepspeed"] = Json::parse(common);
  place.write("deck.json", deck.dump());
  const Outcome ran = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  const Json report = place.report();
  EXPECT_EQ(report.at("result"), "VALID");
  const Json& link = report.at("host_link");
  EXPECT_FALSE(link.at("emulated"));
  for (const char* direction : {"device_to_host", "host_to_device"}) {
    EXPECT_GT(link.at(direction).at("measured").at("bytes"), 0);
    EXPECT_EQ(link.at(direction).at("measured"), link.at(direction).at("predicted"));
  }
  EXPECT_GT(report.at("memory").at("host").at("measured_peak"), 0);
  EXPECT_NE(ran.out.find("Host link, this rank"), std::string::npos) << ran.out;
  EXPECT_NE(read_text(place.out() + "/report.html").find("Host link"), std::string::npos);
}

std::int64_t device_peak(const Workplace& place, const Json& patch, int stage) {
  const std::string deck = place.deck(stage, patch);
  const Outcome plan = run({.args = {"plan", deck, "--ranks", "2", "--format", "json"}});
  EXPECT_EQ(plan.status, 0) << plan.err;
  return Json::parse(plan.out).at("memory").at("device").at("arena");
}

TEST(Offload, TrainsWhatDoesNotFitOnTheDevice) {
  for (int stage : {1, 3}) {
    const Workplace place;
    Json patch = Json::parse(R"({"model": {"hidden": 256, "layers": 4}})");
    const std::int64_t without = device_peak(place, patch, stage);
    patch.merge_patch(offloaded(stage));
    const std::int64_t with = device_peak(place, patch, stage);
    ASSERT_LT(with, without * 9 / 10);
    const double gib = static_cast<double>((with + without) / 2) / (1 << 30);
    patch["memory"] = {{"device_gib", gib}};
    place.deck(stage, patch);
    const Outcome ran = run({.args = place.run_args(), .ranks = 2});
    EXPECT_EQ(ran.status, 0) << ran.err << ran.out;
    patch["deepspeed"]["zero_optimization"] = Json::object();
    place.deck(stage, patch);
    const Outcome refused = run({.args = place.run_args(), .ranks = 2});
    EXPECT_EQ(refused.status, 3);
    EXPECT_NE(refused.err.find("would help: "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("offload_optimizer"), std::string::npos) << refused.err;
  }
}

TEST(Offload, AHostThatIsTooSmallIsRefusedWithTheFigures) {
  const Workplace place;
  Json patch = offloaded(2);
  patch["memory"] = {{"host_gib", 0.0005}};
  place.deck(2, patch);
  const Outcome ran = run({.args = place.run_args(), .ranks = 2});
  EXPECT_EQ(ran.status, 3);
  ASSERT_EQ(lines_of(ran.err).size(), 1U) << ran.err;
  for (const char* part :
       {"host memory", "rank ", "budget is 262.1 KiB", "On each node 2 ranks need", "pinned",
        "would help", "fewer ranks on a node"})
    EXPECT_NE(ran.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << ran.err;
}

TEST(Offload, AnEmulatedLinkIsReportedAsSuch) {
  const Workplace place;
  Json patch = offloaded(3);
  patch["machine"] = {{"host_link_gbps", 0.25}};
  place.deck(3, patch);
  const Outcome ran = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  EXPECT_NE(ran.out.find("emulated: 0.25 GB/s"), std::string::npos) << ran.out;
  const Json report = place.report();
  EXPECT_NE(report.at("unofficial_reasons").dump().find("emulated"), std::string::npos);
  EXPECT_TRUE(report.at("host_link").at("emulated"));
  for (const char* name : {"device_to_host", "host_to_device"}) {
    const Json& direction = report.at("host_link").at(name);
    EXPECT_GT(direction.at("bytes_per_step"), 0);
    EXPECT_GE(direction.at("seconds_per_step").get<double>() * 1.000001,
              direction.at("bytes_per_step").get<double>() / 0.25e9);
  }
}

// A control group of version 1 for this process and its children, for the lifetime of the object.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes) {
    std::ifstream mine("/proc/self/cgroup");
    for (std::string line; std::getline(mine, line);)
      if (const auto at = line.find(":memory:"); at != std::string::npos)
        before_ = root() + line.substr(at + 8) + "/cgroup.procs";
    folder_ = root() + "/shardmark-test-" + std::to_string(getpid());
    std::error_code error;
    if (before_.empty() || !std::filesystem::create_directory(folder_, error)) return;
    there_ =
        put(folder_ + "/memory.limit_in_bytes", bytes) && put(folder_ + "/cgroup.procs", getpid());
  }
  ~MemoryLimit() {
    put(before_, getpid());
    std::error_code left_behind;
    std::filesystem::remove(folder_, left_behind);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  bool there() const { return there_; }

 private:
  static std::string root() { return "/sys/fs/cgroup/memory"; }
  static bool put(const std::string& path, std::int64_t value) {
    std::ofstream file(path);
    file << value << std::flush;
    return static_cast<bool>(file);
  }
  std::string before_, folder_;
  bool there_ = false;
};

TEST(Offload, UnderAControlGroupsLimitARunIsRefusedAndNeverKilled) {
  const Workplace place;
  Json patch = Json::parse(R"({"model": {"hidden": 512, "layers": 8, "heads": 8},
                               "run": {"steps": 1}, "memory": {"device_gib": null, "host_gib": null}})");
  patch.merge_patch(offloaded(2));
  place.deck(2, patch);
  const auto under = [&](std::int64_t mib) {
    const MemoryLimit limit(mib << 20);
    return limit.there() ? run({.args = place.run_args(), .ranks = 2}) : Outcome{};
  };
  const Outcome refused = under(500);  // the prediction is 370 MiB per rank
  if (refused.status == -1) GTEST_SKIP() << "no control group can be made here";
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_NE(refused.err.find("does not fit in"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("On each node 2 ranks"), std::string::npos) << refused.err;
  EXPECT_EQ(under(3000).status, 0);
}

// Large enough for files, on two ranks.
Json in_files(const std::string& folder) {
  return {{"model", {{"hidden", 128}, {"layers", 4}}},
          {"deepspeed",
           {{"zero_optimization",
             {{"offload_optimizer", {{"device", "nvme"}, {"nvme_path", folder}}}}}}}};
}

TEST(Offload, StatesInFilesTrainAndTheKernelTransfersWhatWasPredicted) {
  const Workplace place;
  place.deck(3, in_files(place.path("")));
  const Outcome ran = run({.args = place.run_args(), .ranks = 2});
  ASSERT_EQ(ran.status, 0) << ran.err << ran.out;
  const Json report = place.report();
  const Json& nvme = report.at("memory").at("nvme");
  EXPECT_GT(nvme.at("measured_peak"), 3 << 20);
  EXPECT_EQ(nvme.at("measured_peak"), nvme.at("predicted_peak"));
  EXPECT_EQ(nvme.at("measured_by_category"), nvme.at("predicted_by_category"));
  const Json& disk = report.at("disk");
  for (const char* direction : {"nvme_to_host", "host_to_nvme"}) {
    EXPECT_GT(disk.at(direction).at("measured").at("bytes"), 0);
    EXPECT_EQ(disk.at(direction).at("measured"), disk.at(direction).at("predicted"));
  }
  if (disk.at("direct") && disk.contains("kernel")) {
    EXPECT_GE(disk.at("kernel").at("read_bytes"),
              disk.at("nvme_to_host").at("measured").at("bytes"));
  }
  EXPECT_NE(ran.out.find("unnamed files"), std::string::npos) << ran.out;
  for (const auto& entry : std::filesystem::directory_iterator(place.path("")))
    EXPECT_EQ(entry.path().string().find("swap"), std::string::npos) << entry.path();
}

TEST(Offload, ADiskThatCannotBeUsedIsRefusedBeforeAnythingIsMade) {
  const Workplace place;
  const auto expect_refusal = [&](const Json& patch, int status,
                                  std::initializer_list<const char*> parts) {
    Json whole = in_files(place.path("none"));
    whole.merge_patch(patch);
    place.deck(3, whole);
    const Outcome ran = run({.args = place.run_args(), .ranks = 2});
    EXPECT_EQ(ran.status, status) << ran.err;
    EXPECT_EQ(lines_of(ran.err).size(), 1U) << ran.err;
    for (const char* part : parts)
      EXPECT_NE(ran.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << ran.err;
  };
  expect_refusal(Json::object(), 2, {"nvme_path", "No such file or directory", "mount the disk"});
  const Json there = in_files(place.path(""));
  Json small = there;
  small["memory"] = {{"nvme_gib", 0.001}};
  expect_refusal(small, 3, {"does not fit on the disk of nvme_path", "missing", "would help"});
  Json few = there;
  few["deepspeed"]["zero_optimization"]["offload_optimizer"]["buffer_count"] = 3;
  expect_refusal(few, 2, {"buffer_count = 3", "AdamW needs 4", "give 4"});
}

TEST(Offload, ARunWithFilesResumesAsIfItHadNotEnded) {
  const Workplace place;
  Json patch = in_files(place.path(""));
  patch["run"] = {{"steps", 4}, {"reductions", "ordered"}};
  place.deck(3, patch);
  const auto hashes = [&] {
    const Outcome ran = run({.args = place.run_args(), .ranks = 2});
    EXPECT_EQ(ran.status, 0) << ran.err << ran.out;
    return place.report().at("state_hash");
  };
  const Json whole = hashes();
  patch["checkpoint"] = {{"dir", place.path("ckpt")}, {"every", 2}};
  patch["run"]["steps"] = 2;
  place.deck(3, patch);
  EXPECT_NE(hashes(), whole);
  patch["checkpoint"]["resume"] = "latest";
  patch["run"]["steps"] = 4;
  place.deck(3, patch);
  EXPECT_EQ(hashes(), whole);
}

}  // namespace
}  // namespace shardmark::test::offload_command_test
