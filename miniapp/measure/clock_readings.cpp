// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <core/clock.hpp>
#include <miniapp/measure/clock_readings.hpp>

namespace shardmark {
namespace {

constexpr double most_difference = 0.005;
constexpr std::int64_t reading_slack_ns = 5'000'000;  // a rank may lose its core between two clocks
constexpr std::int64_t wall_slack_ns = 50'000'000;  // time services set the wall clock now and then
constexpr std::int64_t barrier_slack_ns = 1'000'000'000;  // ranks may leave a barrier one by one
constexpr std::int64_t enough_ticks_ns = 500'000'000;     // of warm-up, to learn how long a tick is

std::int64_t kernel_ns() {
  timespec time{};
  if (::syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &time) != 0) return 0;
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

#if defined(__x86_64__)
// Whether the counter runs at one speed on all cores and in all states of the processor.
bool has_constant_ticks() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("flags"))
      return line.find(" constant_tsc") != std::string::npos &&
             line.find(" nonstop_tsc") != std::string::npos;
  return false;
}
#endif

// Reads a counter of the processor: its time stamps, or ARM's generic timer, which runs at one
// speed by definition. Returns 0 if there is no such counter.
std::int64_t ticks() {
#if defined(__x86_64__)
  static const bool usable = has_constant_ticks();
  return usable ? static_cast<std::int64_t>(__rdtsc()) : 0;
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(count));  // not before what comes before it
  return static_cast<std::int64_t>(count);
#else
  return 0;
#endif
}

bool differ(std::int64_t a, std::int64_t b, std::int64_t slack_ns) {
  const auto difference = static_cast<double>(std::abs(a - b));
  return difference > static_cast<double>(slack_ns) &&
         difference > most_difference * static_cast<double>(std::max(a, b));
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

// The readings lie between two readings of one clock; the tightest of a few attempts is taken.
ClockReadings read_clocks() {
  ClockReadings best;
  std::int64_t tightest = INT64_MAX;
  for (int attempt = 0; attempt < 10; ++attempt) {
    ClockReadings now;
    const std::int64_t before = kernel_ns();
    now.monotonic = monotonic_ns();
    now.wall = wall_ns();
    now.ticks = ticks();
    now.kernel = kernel_ns();
    if (now.kernel - before < tightest) tightest = now.kernel - before, best = now;
  }
  return best;
}

std::string clock_disagreement(const ClockSpans& spans, const std::vector<std::int64_t>& ranks) {
  const auto& [start, begin, end] = spans;
  const std::int64_t monotonic = end.monotonic - begin.monotonic;
  const auto against = [&](std::string_view name, std::int64_t span,
                           std::int64_t slack_ns = reading_slack_ns) {
    return differ(monotonic, span, slack_ns)
               ? fmt::format(
                     "the timed steps took {:.3f} s by the monotonic clock and {:.3f} s by {}",
                     seconds(monotonic), seconds(span), name)
               : std::string{};
  };
  if (auto text = against("the wall clock", end.wall - begin.wall, wall_slack_ns); !text.empty())
    return text;
  const std::int64_t kernel = end.kernel - begin.kernel, warm_up = begin.kernel - start.kernel;
  if (end.kernel != 0)
    if (auto text = against("the kernel's own clock", kernel); !text.empty()) return text;
  if (start.ticks != 0 && warm_up >= enough_ticks_ns) {
    const double tick_ns =
        static_cast<double>(warm_up) / static_cast<double>(begin.ticks - start.ticks);
    const double span = tick_ns * static_cast<double>(end.ticks - begin.ticks);
    if (auto text = against("the processor's counter", static_cast<std::int64_t>(span));
        !text.empty())
      return text;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r] != 0 && kernel != 0 && differ(kernel, ranks[r], barrier_slack_ns))
      return fmt::format("the timed steps took {:.3f} s here and {:.3f} s on rank {}",
                         seconds(kernel), seconds(ranks[r]), r);
  return {};
}

std::string compare_clocks(const ClockSpans& spans, Peers& peers) {
  const auto ranks = peers.gather(spans.end.kernel - spans.begin.kernel);
  return peers.first_text(clock_disagreement(spans, ranks));
}

}  // namespace shardmark
