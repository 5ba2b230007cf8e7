// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tests/support/select_files.hpp>

namespace shardmark::test {
namespace {

bool is_of(const std::string& path, const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return path.ends_with("/" + file); });
}

}  // namespace

void select_files(int argc, char* argv[]) {
  const std::string option = "--files=";
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i)
    if (const std::string arg = argv[i]; arg.starts_with(option)) {
      std::istringstream list(arg.substr(option.size()));
      for (std::string file; std::getline(list, file, ',');) files.push_back(file);
    }
  if (files.empty()) return;

  std::string filter = GTEST_FLAG_GET(filter);
  char separator = filter.find('-') == std::string::npos ? '-' : ':';
  const ::testing::UnitTest& unit = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const ::testing::TestSuite& suite = *unit.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(t);
      if (is_of(test.file(), files)) continue;
      filter += separator + std::string(suite.name()) + "." + test.name();
      separator = ':';
    }
  }
  GTEST_FLAG_SET(filter, filter);
}

}  // namespace shardmark::test
