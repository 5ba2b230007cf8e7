// SPDX-License-Identifier: Apache-2.0
// The numbers that rank a run: tokens per second, with
// joules per token where energy is measured, or GiB per second for the storage benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// GiB (2^30 bytes) per second.
double gib_per_s(std::int64_t bytes, double seconds);
/// `bytes`, the size of each of several transfers, over their mean time.
double mean_gib_per_s(std::int64_t bytes, const std::vector<double>& seconds);

/// Names and values, at least one.
std::vector<std::pair<std::string, double>> figures_of_merit(const Result& result);

}  // namespace shardmark
