// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/percentile.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark {

namespace {

// Twice the fastest that vendors publish in 2026, so that a machine of the next generation is not
// refused.
//   a core, fp32        64 operations per cycle (two 512-bit FMA units: Intel's optimization
//   manual,
//                       AMD's of Zen 5) at 5.7 GHz: 0.36 TFLOP/s
//   a core, 16 bits     2048 operations per cycle (Intel AMX, TDPBF16PS every 16 cycles) at 4.2
//   GHz:
//                       8.6 TFLOP/s
//   a core, memory      two loads and one store of 64 bytes per cycle from the nearest cache, at
//                       5.7 GHz: 1.1 TB/s
//   a device, fp32      NVIDIA B200, TF32 without sparsity: 1.1 PFLOP/s
//   a device, 16 bits   AMD MI355X, without sparsity: 2.5 PFLOP/s
//   a device, memory    caches of NVIDIA's B200 and AMD's MI355X: about 20 TB/s (HBM: 8 TB/s)
constexpr double reserve = 2;
constexpr Limits core_fp32{.tflop_per_s = 0.36, .memory_gb_per_s = 1'100};
constexpr Limits core_16_bits{.tflop_per_s = 8.6, .memory_gb_per_s = 1'100};
constexpr Limits device_fp32{.tflop_per_s = 1'100, .memory_gb_per_s = 20'000};
constexpr Limits device_16_bits{.tflop_per_s = 2'500, .memory_gb_per_s = 20'000};

// How many values there are up to the median, from there to the p99, and above it.
struct Parts {
  double lower, middle, upper;
};
Parts parts_of(std::size_t count) {
  const std::size_t p50 = percentile_rank(0.5, count), p99 = percentile_rank(0.99, count);
  return {static_cast<double>(p50), static_cast<double>(p99 - p50),
          static_cast<double>(count - p99)};
}

}  // namespace

Limits limits_of(const RunFacts& facts) {
  const bool narrow = facts.planned.program.precision.computes_in() != Dtype::fp32;
  const ReportReader& report = facts.report;
  if (!facts.on_host()) {
    const Limits& device = narrow ? device_16_bits : device_fp32;
    return {device.tflop_per_s * reserve, device.memory_gb_per_s * reserve};
  }
  const auto threads = static_cast<double>(std::max<std::int64_t>(
      {1, report.integer("/ranks/0/kernel_threads"), report.integer("/ranks/0/matmul_threads")}));
  const Limits& core = narrow ? core_16_bits : core_fp32;
  return {core.tflop_per_s * reserve * threads, core.memory_gb_per_s * reserve * threads};
}

// The value at the rank of a percentile equals it, and belongs to the part below it.
double least_sum(const Percentiles& of, double largest) {
  if (of.count == 0) return 0;
  const auto [lower, middle, upper] = parts_of(of.count);
  const double top = std::max(of.p99, largest);
  const double of_middle = middle > 0 ? of.p50 * middle : 0;
  const double of_upper = upper > 0 ? of.p99 * upper : 0;
  return of_middle + of_upper + top;
}

double largest_sum(const Percentiles& of, double largest) {
  if (of.count == 0) return 0;
  const auto [lower, middle, upper] = parts_of(of.count);
  return of.p50 * lower + of.p99 * middle + largest * upper;
}

}  // namespace shardmark
