// SPDX-License-Identifier: Apache-2.0
// The memory that a rank may use is the smallest limit of the node and of every control group,
// divided by the ranks of the node. The tests write the files of the kernel themselves.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <core/error.hpp>
#include <core/memory/budget.hpp>

namespace shardmark::test::budget_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

class FindMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            ("shardmark_" + std::string(info->name()) + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(root_);
    files_ = {(root_ / "meminfo").string(), (root_ / "self_cgroup").string(),
              (root_ / "cgroup").string()};
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file);
    out << text;
    ASSERT_TRUE(out) << file;
  }
  void node_has(std::int64_t available_mib) const {
    write("meminfo", "MemTotal:       99999999 kB\nMemFree:            1024 kB\nMemAvailable:   " +
                         std::to_string(available_mib * 1024) + " kB\n");
  }

  std::filesystem::path root_;
  MemoryFiles files_;
};

TEST_F(FindMemory, without_limits_the_ranks_share_what_the_node_has_free) {
  node_has(1000);
  const auto found = find_memory(4, files_);
  EXPECT_EQ(found.bytes, 250 * mib);
  EXPECT_EQ(found.source, "MemAvailable of the node (4 ranks)");
}

TEST_F(FindMemory, version_2_leaves_the_limit_minus_the_use_without_page_cache) {
  node_has(1000);
  write("self_cgroup", "0::/job\n");
  write("cgroup/job/memory.max", std::to_string(300 * mib) + "\n");
  write("cgroup/job/memory.current", std::to_string(150 * mib) + "\n");
  write("cgroup/job/memory.stat", "anon 7\ninactive_file " + std::to_string(50 * mib) + "\n");
  const auto found = find_memory(1, files_);
  EXPECT_EQ(found.bytes, 200 * mib);
  EXPECT_NE(found.source.find("cgroup limit of " + files_.cgroup_root + "/job (1 rank)"),
            std::string::npos)
      << found.source;
}

TEST_F(FindMemory, a_parent_group_may_be_the_tightest) {
  node_has(1000);
  write("self_cgroup", "0::/outer/inner/leaf\n");
  write("cgroup/outer/inner/memory.max", "max\n");
  write("cgroup/outer/inner/memory.current", "1\n");
  write("cgroup/outer/inner/leaf/memory.max", std::to_string(500 * mib));
  write("cgroup/outer/inner/leaf/memory.current", "0");
  write("cgroup/outer/memory.max", std::to_string(400 * mib));
  write("cgroup/outer/memory.current", std::to_string(100 * mib));
  EXPECT_EQ(find_memory(2, files_).bytes, 150 * mib);
}

TEST_F(FindMemory, version_1_limit_is_found_beside_other_controllers) {
  node_has(1000);
  write("self_cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:/job\n0::/\n");
  write("cgroup/memory/job/memory.limit_in_bytes", std::to_string(300 * mib));
  write("cgroup/memory/job/memory.usage_in_bytes", std::to_string(100 * mib));
  write("cgroup/memory/job/memory.stat", "total_inactive_file " + std::to_string(20 * mib) + "\n");
  EXPECT_EQ(find_memory(1, files_).bytes, 220 * mib);
}

TEST_F(FindMemory, with_both_versions_the_tightest_counts) {
  node_has(1000);
  write("self_cgroup", "4:memory:/job\n0::/\n");
  write("cgroup/memory/job/memory.limit_in_bytes", std::to_string(300 * mib));
  write("cgroup/memory/job/memory.usage_in_bytes", "0");
  write("cgroup/memory.max", std::to_string(200 * mib));
  write("cgroup/memory.current", "0");
  EXPECT_EQ(find_memory(1, files_).bytes, 200 * mib);
  write("cgroup/memory.max", std::to_string(400 * mib));
  EXPECT_EQ(find_memory(1, files_).bytes, 300 * mib);
}

TEST_F(FindMemory, version_1_without_a_limit_leaves_the_node_to_decide) {
  node_has(1000);
  write("self_cgroup", "4:memory:/job\n");
  write("cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/job/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(find_memory(1, files_).bytes, 1000 * mib);
}

TEST_F(FindMemory, in_a_container_the_group_at_the_mount_point_decides) {
  node_has(1000);
  write("self_cgroup", "0::/somewhere/outside\n");
  write("cgroup/memory.max", std::to_string(64 * mib));
  write("cgroup/memory.current", "0");
  EXPECT_EQ(find_memory(1, files_).bytes, 64 * mib);
}

TEST_F(FindMemory, a_group_over_its_limit_leaves_zero_and_no_negative_number) {
  node_has(1000);
  write("self_cgroup", "0::/\n");
  write("cgroup/memory.max", "1000");
  write("cgroup/memory.current", "2000");
  EXPECT_EQ(find_memory(1, files_).bytes, 0);
}

TEST_F(FindMemory, without_any_file_the_error_names_the_remedy) {
  try {
    find_memory(1, files_);
    FAIL() << "memory was found in an empty folder";
  } catch (const MemoryError& e) {
    EXPECT_NE(std::string(e.what()).find("memory.device_gib"), std::string::npos) << e.what();
  }
}

TEST_F(FindMemory, works_on_this_machine) {
  EXPECT_GT(find_memory(1).bytes, 0);
}

}  // namespace
}  // namespace shardmark::test::budget_test
