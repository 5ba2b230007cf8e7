// SPDX-License-Identifier: Apache-2.0
// Rule: a Kokkos tool sees a region per step, in it forward, backward and the optimizer, and in
// these the modules and the waits for collectives; all regions that begin also end.
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::regions_command_test {
namespace {

// Each region with those around it: "step 3 / forward / h.0.attn.qkv".
std::vector<std::string> regions_in(const std::filesystem::path& file, int& left_open) {
  std::vector<std::string> all, around;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    const int depth = std::stoi(line.substr(0, space));
    const std::string name = line.substr(space + 1);
    left_open = depth;
    if (name == "end") break;
    if (depth < 0 || depth > static_cast<int>(around.size())) return all;
    around.resize(static_cast<std::size_t>(depth));
    all.push_back(around.empty() ? name : around.back() + " / " + name);
    around.push_back(all.back());
  }
  return all;
}

std::ptrdiff_t first_of(const std::vector<std::string>& all, const std::string& beginning) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].starts_with(beginning)) return static_cast<std::ptrdiff_t>(i);
  return -1;
}

TEST(Regions, nest_by_step_phase_and_module) {
  const Workplace place;
  place.deck(3);
  const std::filesystem::path folder = place.path("regions");
  std::filesystem::create_directory(folder);
  const Outcome outcome =
      run({.args = place.run_args(),
           .ranks = 2,
           .environment = {{"KOKKOS_TOOLS_LIBS", SHARDMARK_TEST_KOKKOS_TOOL},
                           {"KOKKOS_PROFILE_LIBRARY", SHARDMARK_TEST_KOKKOS_TOOL},
                           {"SHARDMARK_TEST_REGIONS", folder.string()}}});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    int left_open = -1;
    const std::vector<std::string> all = regions_in(entry.path(), left_open);
    if (all.empty()) continue;  // a process that only launches others
    ++files;
    EXPECT_EQ(left_open, 0);
    const auto forward = first_of(all, "step 1 / forward"),
               backward = first_of(all, "step 1 / backward");
    const auto optimizer = first_of(all, "step 1 / optimizer"), next = first_of(all, "step 2");
    EXPECT_GE(forward, 0);
    EXPECT_LT(forward, backward);
    EXPECT_LT(backward, optimizer);
    EXPECT_LT(optimizer, next);
    EXPECT_GE(first_of(all, "step 1 / forward / block0"), 0)
        << all[static_cast<std::size_t>(forward) + 1];
    EXPECT_GE(first_of(all, "step 1 / forward / wait for all_gather"), 0);
    EXPECT_GE(first_of(all, "step 1 / optimizer / adamw"), 0);
  }
  EXPECT_EQ(files, 2);
}

}  // namespace
}  // namespace shardmark::test::regions_command_test
