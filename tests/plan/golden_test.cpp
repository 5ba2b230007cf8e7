// SPDX-License-Identifier: Apache-2.0
// Rule: the plans of a small model are those stored as text. They are the specification that a
// reader sees; a change of a schedule shows as a change of these files. To renew them:
//     SHARDMARK_RENEW_GOLDEN=1 build/tests/test_plan --gtest_filter='Golden*'
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <core/plan/print.hpp>
#include <tests/plan/programs.hpp>

namespace shardmark {
namespace {

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, PlanIsAsStored) {
  const int stage = GetParam();
  const std::string now = print_text(testing::program(testing::gpt2_deck(stage), 3, 1, 2));
  const std::string path =
      std::string(SHARDMARK_TEST_GOLDEN) + "/paper-z" + std::to_string(stage) + ".txt";
  if (std::getenv("SHARDMARK_RENEW_GOLDEN") != nullptr) {
    std::ofstream(path) << now;
    GTEST_SKIP() << "renewed " << path;
  }
  std::stringstream stored;
  stored << std::ifstream(path).rdbuf();
  std::string a, b;
  std::istringstream have(now), want(stored.str());
  for (int line = 1;; ++line) {
    const bool more_have = static_cast<bool>(std::getline(have, a));
    const bool more_want = static_cast<bool>(std::getline(want, b));
    if (!more_have && !more_want) break;
    ASSERT_EQ(more_have ? a : "(end)", more_want ? b : "(end)") << path << ", line " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Golden, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace shardmark
