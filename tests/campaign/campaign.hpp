// SPDX-License-Identifier: Apache-2.0
// What all campaigns share: how many cases to run, from which seed, and the line that tells what
// was run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <core/random.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test {

/// One campaign. Its cases come from SHARDMARK_CAMPAIGN_SEED (1) and number
/// SHARDMARK_CAMPAIGN_CASES, or those of the short form. Where all possible cases are listed, the
/// first SHARDMARK_CAMPAIGN_FROM (0) in their random order are left out. Prints the totals at its
/// end.
class Campaign {
 public:
  Campaign(std::string name, std::int64_t short_cases, bool prints = true)
      : name_(std::move(name)),
        prints_(prints),
        seed_(static_cast<std::uint64_t>(number("SHARDMARK_CAMPAIGN_SEED", 1))),
        wanted_(number("SHARDMARK_CAMPAIGN_CASES", short_cases)),
        first_(number("SHARDMARK_CAMPAIGN_FROM", 0)) {}
  ~Campaign() {
    if (prints_) print_totals();
  }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  bool more() const { return cases_ < wanted_ && failures_ < most_failures; }
  /// A number from 0 to `bound` - 1, which must be above 0.
  std::int64_t random(std::int64_t bound) {
    return static_cast<std::int64_t>(mix(seed_, 77, draws_++) % static_cast<std::uint64_t>(bound));
  }
  template<class List>
  const auto& one_of(const List& list) {
    return *(std::begin(list) + random(static_cast<std::int64_t>(std::size(list))));
  }
  /// Brings all possible cases into a random order and leaves out those of earlier campaigns. A
  /// case has its place by its name, so that one more of them moves the others by no more than one.
  template<class T, class Name>
  void shuffle(std::vector<T>& all, const Name& name) {
    std::multimap<std::pair<std::uint64_t, std::string>, T> placed;
    for (const T& one : all) {
      const std::string text = name(one);
      placed.emplace(std::pair(mix(seed_, 78, std::hash<std::string>{}(text)), text), one);
    }
    std::ranges::copy(placed | std::views::values, all.begin());
    std::printf("%zu possible cases, from number %lld on\n", all.size(),
                static_cast<long long>(first_));
    std::fflush(stdout);
    all.erase(all.begin(), all.begin() + std::min(first_, static_cast<std::int64_t>(all.size())));
  }
  /// Runs one case; `what` says which, should it fail.
  template<class Body>
  void run_case(const std::string& what, Body body) {
    SCOPED_TRACE(name_ + " " + std::to_string(cases_) + ": " + what);
    const int before = failed_parts();
    body();
    ++cases_;
    if (failed_parts() > before) ++failures_;
    const std::int64_t cases_per_line = std::max<std::int64_t>(10, wanted_ / 20);
    if (prints_ && cases_ % cases_per_line == 0) print_totals();
  }

 private:
  // Flushed, so that a campaign that is ended early has said how far it came.
  void print_totals() const {
    std::printf("campaign %s: %lld cases, %lld failures, seed %llu\n", name_.c_str(),
                static_cast<long long>(cases_), static_cast<long long>(failures_),
                static_cast<unsigned long long>(seed_));
    std::fflush(stdout);
  }

  static constexpr std::int64_t most_failures = 20;
  static std::int64_t number(const char* name, std::int64_t without) {
    const char* text = std::getenv(name);
    return text != nullptr && *text != '\0' ? std::atoll(text) : without;
  }
  static int failed_parts() {
    const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
    int failed = 0;
    for (int i = 0; i < result.total_part_count(); ++i)
      failed += result.GetTestPartResult(i).failed() ? 1 : 0;
    return failed;
  }

  std::string name_;
  bool prints_;
  std::uint64_t seed_, draws_ = 0;
  std::int64_t wanted_, first_, cases_ = 0, failures_ = 0;
};

/// The program's own lines on standard error; MPI_Abort adds others.
inline std::vector<std::string> messages_of(const Outcome& o) {
  std::vector<std::string> own;
  for (const std::string& line : lines_of(o.err))
    if (line.starts_with("shardmark")) own.push_back(line);
  return own;
}

/// Whether `status` is that of a signal, of a crash of a sanitizer or of nothing at all.
inline bool is_crash(int status) {
  return status < 0 || status >= 126 || status == 70;
}

}  // namespace shardmark::test
